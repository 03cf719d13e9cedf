//! One request: user, time, page and referer. Columns are derived from it.

use super::super::random::RowRandom;
use super::SEED;

/// 1 July 2013 in days since 1970.
const FIRST_DAY: i64 = 15_887;

/// Number of days of the month.
const DAYS: i64 = 31;

/// Hours of the day, repeated by the frequency of requests.
const HOURS: [i64; 32] = [
    0, 1, 3, 5, 6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13, 14, 14, 15, 15, 16, 17, 18, 19, 19, 20,
    21, 22, 23,
];

/// `TraficSourceID`: from a page of the same site, nowhere, another site, a search engine, an advertisement,
/// an unknown place; out of 256 requests.
const SOURCES: [(i64, u64); 5] = [(-1, 150), (0, 38), (1, 22), (2, 34), (6, 10)];

/// `TraficSourceID` of the remaining requests.
const ADVERTISEMENT: i64 = 3;

/// `TraficSourceID` of a search.
const SEARCH: i64 = 2;

/// Numbers of the random values of a row, beyond those of its columns.
mod draw {
    pub(super) const USER: u64 = 200;
    pub(super) const PAGE: u64 = 204;
    pub(super) const REFERER: u64 = 208;
    pub(super) const PHRASE: u64 = 212;
    pub(super) const SOURCE: u64 = 216;
    pub(super) const DAY: u64 = 217;
    pub(super) const HOUR: u64 = 218;
    pub(super) const SECOND: u64 = 219;
    pub(super) const COUNTER: u64 = 220;
}

/// The owners of random numbers.
#[derive(Debug, Clone, Copy)]
enum Stream {
    Row = 1,
    User,
    Page,
}

/// The numbers of entities that rows refer to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    users: u64,
    pages: u64,
    phrases: u64,
}

impl Sizes {
    /// The sizes for a table of `rows` rows. Not all entities are referred to: of the users, 98 %.
    pub(super) fn of(rows: u64) -> Self {
        let share = |per_mille: u64| (rows * per_mille / 1000).max(32);
        Self {
            users: share(180),
            pages: share(185),
            phrases: share(80),
        }
    }
}

/// The most requested of all pages of counter 62, which queries filter by.
const KNOWN_PAGE: u64 = 16;

/// A page of some site.
#[derive(Debug, Clone, Copy)]
pub(super) struct Page {
    pub(super) number: u64,
    pub(super) random: RowRandom,
}

impl Page {
    fn new(number: u64) -> Self {
        let random = RowRandom::new(SEED, Stream::Page as u64, number);
        Self { number, random }
    }

    /// Its site, from which `CounterID` is derived: 1 to 8191, smaller ones more frequent.
    pub(super) fn site(&self) -> u64 {
        match self.number {
            KNOWN_PAGE => 9,
            _ => skewed(self.random, draw::COUNTER, 13),
        }
    }

    pub(super) fn counter(&self) -> i64 {
        match self.site() {
            9 => 62,
            site => 100 + (site as i64 * 7_919) % 245_000,
        }
    }

    pub(super) fn hash(&self) -> i64 {
        match self.number {
            KNOWN_PAGE => 2_868_770_270_353_813_622,
            _ => self.random.bits(0) as i64,
        }
    }
}

/// One request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hit {
    /// Random numbers of the row.
    pub(super) random: RowRandom,
    /// The user, by number.
    pub(super) user: u64,
    /// Random numbers of the user.
    pub(super) of_user: RowRandom,
    pub(super) user_id: i64,
    pub(super) page: Page,
    /// The page that led here, if any, unless it is a search engine's.
    pub(super) referer: Option<Page>,
    /// The number of the search phrase.
    pub(super) phrase: Option<u64>,
    /// `TraficSourceID`.
    pub(super) source: i64,
    /// Seconds since 1970.
    pub(super) time: i64,
}

impl Hit {
    pub(super) fn new(sizes: Sizes, row: u64) -> Self {
        let random = RowRandom::new(SEED, Stream::Row as u64, row);
        let user = popular(random, draw::USER, sizes.users, 64);
        let of_user = RowRandom::new(SEED, Stream::User as u64, user);
        let user_id = match user {
            user if user == sizes.users / 2 => 435_090_932_899_640_449,
            _ => (of_user.bits(0) >> 1) as i64,
        };
        let source = source(random.bits(draw::SOURCE) % 256);
        let from_page = match source {
            // One in 16 requests from the same site has no referer.
            -1 => !random.bits(draw::REFERER + 3).is_multiple_of(16),
            1 | ADVERTISEMENT => true,
            _ => false,
        };
        let day = FIRST_DAY + random.range(draw::DAY, 0, DAYS - 1);
        let hour = random.choose(draw::HOUR, &HOURS);
        Self {
            random,
            user,
            of_user,
            user_id,
            page: Page::new(popular(random, draw::PAGE, sizes.pages, 4)),
            referer: from_page.then(|| Page::new(popular(random, draw::REFERER, sizes.pages, 2))),
            phrase: (source == SEARCH).then(|| popular(random, draw::PHRASE, sizes.phrases, 8)),
            source,
            time: day * 86_400 + hour * 3_600 + random.range(draw::SECOND, 0, 3_599),
        }
    }

    /// Days since 1970.
    pub(super) fn day(&self) -> i64 {
        self.time / 86_400
    }

    pub(super) fn referer_hash(&self) -> i64 {
        match (self.referer, self.phrase) {
            (Some(page), _) => page.hash(),
            (None, Some(phrase)) => RowRandom::new(SEED, 0, phrase).bits(0) as i64,
            // The hash of an empty referer.
            (None, None) => 3_594_120_000_172_545_465,
        }
    }

    pub(super) fn search_engine(&self) -> i64 {
        match self.phrase {
            Some(_) => self
                .random
                .choose(draw::SOURCE, &[2, 2, 2, 2, 2, 3, 3, 3, 13, 1, 4, 5, 6, 68]),
            None => 0,
        }
    }

    /// 18 advertisers.
    pub(super) fn advertiser(&self) -> i64 {
        match self.source {
            ADVERTISEMENT => self.random.choose(draw::SOURCE, &ADVERTISERS),
            _ => 0,
        }
    }
}

/// The first is the most frequent.
const ADVERTISERS: [i64; 32] = [
    2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 27, 27, 13, 13, 45, 44, 3, 62, 52, 50, 28, 53, 25, 61, 21, 42, 16, 7,
    22, 2,
];

fn source(mut part: u64) -> i64 {
    for (source, parts) in SOURCES {
        if part < parts {
            return source;
        }
        part -= parts;
    }
    ADVERTISEMENT
}

/// A number from 1 to below 2^`levels`: a uniform exponent, then uniform within its power of two.
pub(super) fn skewed(random: RowRandom, column: u64, levels: u32) -> u64 {
    let least = 1 << random.range(column, 0, i64::from(levels) - 1);
    least | (random.bits(column + 1) & (least - 1))
}

/// A number below `count`: uniform, except that one in `skewed_one_in` is skewed towards smaller numbers.
fn popular(random: RowRandom, column: u64, count: u64, skewed_one_in: u64) -> u64 {
    match random.bits(column) % skewed_one_in {
        0 => skewed(random, column + 1, count.ilog2()),
        _ => random.range(column + 1, 0, count as i64 - 1) as u64,
    }
}
