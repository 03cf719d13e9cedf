//! The 105 columns, in the published table's order: names, types, and the sources of values.
//!
//! Columns that no query reads are random and independent, at minimal cost, so that the table is as wide as
//! the original.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Date32Array, Int16Array, Int32Array, Int64Array, StringBuilder, TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field, TimeUnit};

use super::hit::{Hit, skewed};
use super::text;

/// The source of a column's numbers.
#[derive(Debug, Clone, Copy)]
enum Numbers {
    Always(i64),
    /// Uniform from the first to the second.
    Range(i64, i64),
    /// Zero, except for this number of rows per million, which are uniform from the second to the third.
    Few(u64, i64, i64),
    /// From 0 on, smaller ones more frequent, over this number of powers of two.
    Skewed(u32),
    /// One of these.
    OneOf(&'static [i64]),
    /// One of these, equal for all requests of a user.
    OfUser(&'static [i64]),
    /// A property of the request.
    Of(fn(&Hit) -> i64),
}

/// The source of a column's strings.
#[derive(Debug, Clone, Copy)]
enum Texts {
    Always(&'static str),
    /// One of these.
    OneOf(&'static [&'static str]),
    /// A property of the request, appended to an empty string.
    Of(fn(&Hit, &mut String)),
}

#[derive(Debug, Clone, Copy)]
enum Values {
    Short(Numbers),
    Int(Numbers),
    Long(Numbers),
    /// In days since 1970.
    Date(Numbers),
    /// In seconds since 1970.
    Time(Numbers),
    Text(Texts),
}

/// A column.
#[derive(Debug, Clone, Copy)]
pub(super) struct Column(&'static str, Values);

impl Column {
    pub(super) fn field(&self) -> Field {
        let data_type = match self.1 {
            Values::Short(_) => DataType::Int16,
            Values::Int(_) => DataType::Int32,
            Values::Long(_) => DataType::Int64,
            Values::Date(_) => DataType::Date32,
            Values::Time(_) => DataType::Timestamp(TimeUnit::Microsecond, None),
            Values::Text(_) => DataType::Utf8,
        };
        Field::new(self.0, data_type, false)
    }

    /// The values of these rows. `index` is the number of the column.
    pub(super) fn values(&self, index: u64, hits: &[Hit]) -> ArrayRef {
        match self.1 {
            Values::Short(numbers) => Arc::new(Int16Array::from_iter_values(
                numbers.of(index, hits).map(|v| v as i16),
            )),
            Values::Int(numbers) => Arc::new(Int32Array::from_iter_values(
                numbers.of(index, hits).map(|v| v as i32),
            )),
            Values::Long(numbers) => Arc::new(Int64Array::from_iter_values(numbers.of(index, hits))),
            Values::Date(numbers) => Arc::new(Date32Array::from_iter_values(
                numbers.of(index, hits).map(|v| v as i32),
            )),
            Values::Time(numbers) => {
                let micros = numbers.of(index, hits).map(|seconds| seconds * 1_000_000);
                Arc::new(TimestampMicrosecondArray::from_iter_values(micros))
            }
            Values::Text(texts) => texts.of(index, hits),
        }
    }
}

impl Numbers {
    fn of<'a>(self, index: u64, hits: &'a [Hit]) -> Box<dyn Iterator<Item = i64> + 'a> {
        let hits = hits.iter();
        match self {
            Self::Always(value) => Box::new(hits.map(move |_| value)),
            Self::Range(low, high) => Box::new(hits.map(move |hit| hit.random.range(index, low, high))),
            Self::Few(share, low, high) => {
                Box::new(
                    hits.map(move |hit| match hit.random.bits(index) % 1_000_000 < share {
                        true => hit.random.range(index + 500, low, high),
                        false => 0,
                    }),
                )
            }
            Self::Skewed(levels) => {
                Box::new(hits.map(move |hit| skewed(hit.random, index + 500, levels) as i64 - 1))
            }
            Self::OneOf(choices) => Box::new(hits.map(move |hit| hit.random.choose(index, choices))),
            Self::OfUser(choices) => Box::new(hits.map(move |hit| hit.of_user.choose(index, choices))),
            Self::Of(value) => Box::new(hits.map(value)),
        }
    }
}

impl Texts {
    fn of(self, index: u64, hits: &[Hit]) -> ArrayRef {
        let mut column = StringBuilder::with_capacity(hits.len(), 0);
        let mut text = String::new();
        for hit in hits {
            match self {
                Self::Always(text) => column.append_value(text),
                Self::OneOf(choices) => column.append_value(hit.random.choose(index, choices)),
                Self::Of(write) => {
                    text.clear();
                    write(hit, &mut text);
                    column.append_value(&text);
                }
            }
        }
        Arc::new(column.finish())
    }
}

use Numbers::{Always, Few, Of, OfUser, OneOf, Range, Skewed};

const EMPTY: Texts = Texts::Always("");

/// Widths and heights of screens, with equal indices; those of phones are last.
const SCREENS: [(i64, i64); 16] = [
    (1366, 768),
    (1366, 768),
    (1366, 768),
    (1920, 1080),
    (1920, 1080),
    (1920, 1080),
    (1280, 1024),
    (1280, 1024),
    (1600, 900),
    (1680, 1050),
    (1440, 900),
    (1280, 800),
    (1024, 768),
    (2560, 1440),
    (1920, 1200),
    (1152, 864),
];

const PHONE_SCREENS: [(i64, i64); 4] = [(768, 1024), (320, 480), (360, 640), (480, 800)];

/// The phones that one user in 17 has: makers, and the names of models.
const PHONES: [(i64, &str); 8] = [
    (1, "iPad"),
    (1, "iPad"),
    (1, "iPhone"),
    (6, "GT-I9500"),
    (6, "GT-N7100"),
    (7, "Lumia 920"),
    (5, "ALCATEL "),
    (10, "Nexus 4"),
];

fn phone(hit: &Hit) -> Option<(i64, &'static str)> {
    hit.of_user
        .bits(600)
        .is_multiple_of(17)
        .then(|| PHONES[(hit.of_user.bits(601) % 8) as usize])
}

/// Appends the name and, except for Apple, the number of one of 24 variants.
fn phone_model(hit: &Hit, text: &mut String) {
    if let Some((maker, model)) = phone(hit) {
        text.push_str(model);
        if maker != 1 {
            let variant = (hit.of_user.bits(602) % 24) as u8;
            text.push(char::from(b'A' + variant));
        }
    }
}

fn screen(hit: &Hit) -> (i64, i64) {
    match phone(hit) {
        Some(_) => hit.of_user.choose(603, &PHONE_SCREENS),
        None => hit.of_user.choose(604, &SCREENS),
    }
}

/// A part of the screen, because windows have many sizes.
fn window(hit: &Hit, draw: u64, screen: i64) -> i64 {
    screen - hit.random.range(draw, 0, screen / 4)
}

fn search_phrase(hit: &Hit, text: &mut String) {
    if let Some(number) = hit.phrase {
        text::phrase(number, text);
    }
}

fn original_url(hit: &Hit, text: &mut String) {
    if hit.random.bits(605).is_multiple_of(4) {
        text::url(&hit.page, text);
    }
}

const fn short(name: &'static str, numbers: Numbers) -> Column {
    Column(name, Values::Short(numbers))
}

const fn int(name: &'static str, numbers: Numbers) -> Column {
    Column(name, Values::Int(numbers))
}

const fn long(name: &'static str, numbers: Numbers) -> Column {
    Column(name, Values::Long(numbers))
}

const fn date(name: &'static str, numbers: Numbers) -> Column {
    Column(name, Values::Date(numbers))
}

const fn time(name: &'static str, numbers: Numbers) -> Column {
    Column(name, Values::Time(numbers))
}

const fn text(name: &'static str, texts: Texts) -> Column {
    Column(name, Values::Text(texts))
}

/// All columns.
pub(super) const COLUMNS: [Column; 105] = [
    long("WatchID", Of(|hit| (1 << 62) | (hit.random.bits(0) >> 2) as i64)),
    short("JavaEnable", OfUser(&[1, 1, 1, 0])),
    text("Title", Texts::Of(|hit, text| text::title(&hit.page, text))),
    short("GoodEvent", Always(1)),
    time("EventTime", Of(|hit| hit.time)),
    date("EventDate", Of(Hit::day)),
    int("CounterID", Of(|hit| hit.page.counter())),
    // Two users share an address.
    int(
        "ClientIP",
        Of(|hit| ((hit.user / 2).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as i64),
    ),
    int("RegionID", Of(|hit| skewed(hit.of_user, 606, 13) as i64)),
    long("UserID", Of(|hit| hit.user_id)),
    short("CounterClass", OneOf(&[0, 0, 0, 1, -1])),
    short("OS", OfUser(&[2, 2, 44, 44, 44, 44, 44, 83, 7, 107])),
    short("UserAgent", OfUser(&[5, 5, 5, 7, 7, 4, 4, 3, 2, 16])),
    text("URL", Texts::Of(|hit, text| text::url(&hit.page, text))),
    text("Referer", Texts::Of(text::referer)),
    short("IsRefresh", Few(150_000, 1, 1)),
    short("RefererCategoryID", Skewed(13)),
    int("RefererRegionID", Skewed(10)),
    short("URLCategoryID", Skewed(14)),
    int("URLRegionID", Skewed(10)),
    short("ResolutionWidth", Of(|hit| screen(hit).0)),
    short("ResolutionHeight", Of(|hit| screen(hit).1)),
    short("ResolutionDepth", OfUser(&[23, 37, 37, 37, 37, 37, 37, 29])),
    short("FlashMajor", OfUser(&[15, 15, 15, 15, 14, 13, 11, 0])),
    short("FlashMinor", OfUser(&[7, 7, 7, 8, 5, 0])),
    text(
        "FlashMinor2",
        Texts::OneOf(&["700", "700", "800", "D", "b0", "0"]),
    ),
    short("NetMajor", OfUser(&[0, 0, 0, 3, 2])),
    short("NetMinor", OfUser(&[0, 0, 5])),
    short("UserAgentMajor", OfUser(&[27, 28, 22, 21, 10, 9, 12, 17])),
    text(
        "UserAgentMinor",
        Texts::OneOf(&["D\u{440}", "li", "s\u{43e}", "57", "0"]),
    ),
    short("CookieEnable", Always(1)),
    short("JavascriptEnable", Always(1)),
    short("IsMobile", Of(|hit| i64::from(phone(hit).is_some()))),
    short("MobilePhone", Of(|hit| phone(hit).map_or(0, |(maker, _)| maker))),
    text("MobilePhoneModel", Texts::Of(phone_model)),
    text("Params", EMPTY),
    int(
        "IPNetworkID",
        Of(|hit| (hit.of_user.bits(607) % 4_000_000) as i64),
    ),
    short("TraficSourceID", Of(|hit| hit.source)),
    short("SearchEngineID", Of(Hit::search_engine)),
    text("SearchPhrase", Texts::Of(search_phrase)),
    short("AdvEngineID", Of(Hit::advertiser)),
    short("IsArtifical", Few(4_000, 1, 1)),
    short("WindowClientWidth", Of(|hit| window(hit, 608, screen(hit).0))),
    short("WindowClientHeight", Of(|hit| window(hit, 609, screen(hit).1))),
    short("ClientTimeZone", OfUser(&[-1, 180, 180, 180, 240, 300, 360, 135])),
    time(
        "ClientEventTime",
        Of(|hit| hit.time + hit.random.range(610, -3_600, 14_400)),
    ),
    short("SilverlightVersion1", OfUser(&[5, 5, 4, 0, 0])),
    short("SilverlightVersion2", OfUser(&[1, 1, 0, 0])),
    int("SilverlightVersion3", OfUser(&[20_125, 20_513, 10_411, 0, 0])),
    short("SilverlightVersion4", Always(0)),
    text(
        "PageCharset",
        Texts::OneOf(&[
            "utf-8;windows",
            "utf-8;windows",
            "windows",
            "windows-1251;charset",
        ]),
    ),
    int("CodeVersion", OneOf(&[291, 291, 1601, 1634, 325])),
    short("IsLink", Few(80_000, 1, 1)),
    short("IsDownload", Few(3_000, 1, 1)),
    short("IsNotBounce", OneOf(&[0, 1])),
    long("FUniqID", Of(|hit| (hit.of_user.bits(611) >> 1) as i64)),
    text("OriginalURL", Texts::Of(original_url)),
    int("HID", Range(1, 1_073_741_823)),
    short("IsOldCounter", Few(500, 1, 1)),
    short("IsEvent", Few(3_000, 1, 1)),
    short("IsParameter", Few(20_000, 1, 1)),
    short("DontCountHits", Few(300_000, 1, 1)),
    short("WithHash", Few(100_000, 1, 1)),
    text(
        "HitColor",
        Texts::OneOf(&["5", "5", "5", "g", "E", "S", "T", "P"]),
    ),
    time(
        "LocalEventTime",
        Of(|hit| hit.time + hit.of_user.choose(612, &[10_800, 10_800, 14_400, 7_200])),
    ),
    short("Age", OfUser(&[0, 0, 50, 31, 22, 26])),
    short("Sex", OfUser(&[0, 0, 1, 2])),
    short("Income", OfUser(&[0, 0, 1, 2, 3])),
    short("Interests", Of(|hit| (hit.of_user.bits(613) % 16_384) as i64)),
    short("Robotness", Few(50_000, 1, 90)),
    int("RemoteIP", Of(|hit| hit.of_user.bits(614) as i64)),
    int("WindowName", Range(-2_147_483_648, 2_147_483_647)),
    int("OpenerName", Few(150_000, -2_147_483_648, 2_147_483_647)),
    short("HistoryLength", Skewed(9)),
    text("BrowserLanguage", Texts::OneOf(&["S0", "S0", "S0", "T4", "n1"])),
    text(
        "BrowserCountry",
        Texts::OneOf(&["\u{6f}\u{8}", "nA", "nA", "h1", "\u{9}3"]),
    ),
    text("SocialNetwork", EMPTY),
    text("SocialAction", EMPTY),
    short("HTTPError", Always(0)),
    int("SendTiming", Few(500_000, 0, 30_000)),
    int("DNSTiming", Few(300_000, 0, 1_000)),
    int("ConnectTiming", Few(300_000, 0, 3_000)),
    int("ResponseStartTiming", Few(600_000, 0, 10_000)),
    int("ResponseEndTiming", Few(600_000, 0, 20_000)),
    int("FetchTiming", Few(600_000, 0, 30_000)),
    short("SocialSourceNetworkID", Few(5_000, 1, 8)),
    text("SocialSourcePage", EMPTY),
    long("ParamPrice", Few(1_000, 1, 10_000_000)),
    text("ParamOrderID", EMPTY),
    text("ParamCurrency", Texts::Always("NH\u{1c}")),
    short("ParamCurrencyID", Few(1_000, 1, 3)),
    text("OpenstatServiceName", EMPTY),
    text("OpenstatCampaignID", EMPTY),
    text("OpenstatAdID", EMPTY),
    text("OpenstatSourceID", EMPTY),
    text("UTMSource", EMPTY),
    text("UTMMedium", EMPTY),
    text("UTMCampaign", EMPTY),
    text("UTMContent", EMPTY),
    text("UTMTerm", EMPTY),
    text("FromTag", EMPTY),
    short("HasGCLID", Few(15_000, 1, 1)),
    long("RefererHash", Of(Hit::referer_hash)),
    long("URLHash", Of(|hit| hit.page.hash())),
    int("CLID", Few(10_000, 1, 5_000)),
];
