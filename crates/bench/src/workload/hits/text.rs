//! Strings of pages, phrases and referers, composed of syllables.

use super::super::random::RowRandom;
use super::SEED;
use super::hit::{Hit, Page};

const LATIN: [&str; 32] = [
    "ba", "ko", "ri", "na", "te", "mo", "lu", "si", "va", "do", "ge", "pi", "ra", "to", "ne", "sa", "li",
    "zo", "ka", "me", "vi", "ru", "da", "po", "shi", "no", "le", "ta", "bo", "ma", "gra", "sto",
];

const CYRILLIC: [&str; 32] = [
    "ба", "ко", "ри", "на", "те", "мо", "лу", "си", "ва", "до", "ге", "пи", "ра", "то", "не", "са", "ли",
    "зо", "ка", "ме", "ви", "ру", "да", "по", "ши", "но", "ле", "та", "бо", "ма", "гра", "сто",
];

const DOMAINS: [&str; 8] = [".ru", ".ru", ".ru", ".ru", ".com", ".com.tr", ".ua", ".net"];

const SECTIONS: [&str; 8] = [
    "/index.php?showtopic=",
    "/news/",
    "/catalog/item/",
    "/real-estate/out-of-town/houses/",
    "/search?page=",
    "/forum/viewtopic.php?f=12&t=",
    "/photo/album/",
    "/cars/passenger/used/",
];

const TAILS: [&str; 4] = ["", "", "&sort=price&view=list", "#comments"];

/// Appends a word of two to four syllables.
fn word(text: &mut String, syllables: &[&str; 32], mut bits: u64) {
    for _ in 0..2 + bits % 3 {
        bits >>= 5;
        text.push_str(syllables[(bits % 32) as usize]);
    }
}

/// Appends words, separated by `between`.
fn words(text: &mut String, syllables: &[&str; 32], between: char, random: RowRandom, count: u64) {
    for number in 0..count {
        if number > 0 {
            text.push(between);
        }
        word(text, syllables, random.bits(32 + number) >> 1);
    }
}

/// Appends a decimal number.
fn number(text: &mut String, mut value: u64) {
    let mut digits = [0_u8; 20];
    let mut first = digits.len();
    loop {
        first -= 1;
        digits[first] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    digits[first..]
        .iter()
        .for_each(|digit| text.push(char::from(*digit)));
}

/// Appends the name of a site.
fn host(text: &mut String, site: u64) {
    let random = RowRandom::new(SEED, 0, site);
    if random.bits(1).is_multiple_of(4) {
        text.push_str("www.");
    }
    word(text, &LATIN, random.bits(2) >> 1);
    number(text, site);
    text.push_str(random.choose(3, &DOMAINS));
}

/// Appends a page's address, which is unique.
pub(super) fn url(page: &Page, text: &mut String) {
    let random = page.random;
    text.push_str("http://");
    host(text, page.site());
    text.push_str(random.choose(10, &SECTIONS));
    match random.bits(11) % 2048 {
        0 => text.push_str("redirect?to=http://www.google.ru/"),
        1 => text.push_str("google/"),
        _ => {}
    }
    words(text, &LATIN, '/', random, random.bits(12) % 10);
    text.push('/');
    number(text, page.number);
    text.push_str(random.choose(13, &TAILS));
}

/// Appends a page's title, which two pages share. One in eight has none.
pub(super) fn title(page: &Page, text: &mut String) {
    let random = RowRandom::new(SEED, 1, page.number / 2);
    if random.bits(0).is_multiple_of(8) {
        return;
    }
    if random.bits(1).is_multiple_of(512) {
        text.push_str("Google ");
    }
    words(text, &CYRILLIC, ' ', random, 3 + random.bits(2) % 8);
}

/// Appends a phrase.
pub(super) fn phrase(number: u64, text: &mut String) {
    let random = RowRandom::new(SEED, 2, number);
    words(text, &CYRILLIC, ' ', random, 1 + random.bits(0) % 5);
}

/// Appends the address of the page that led to a request.
pub(super) fn referer(hit: &Hit, text: &mut String) {
    match (&hit.referer, hit.phrase) {
        (Some(page), _) => url(page, text),
        (None, Some(number)) => {
            text.push_str(match hit.search_engine() {
                2 => "http://yandex.ru/yandsearch?lr=213&text=",
                3 => "https://www.google.ru/search?hl=ru&q=",
                _ => "http://go.mail.ru/search?rch=e&q=",
            });
            phrase(number, text);
        }
        (None, None) => {}
    }
}
