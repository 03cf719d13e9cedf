//! The objects of a JSON file as a sequence, whether or not the file is an array of them.
//!
//! Arrow's reader accepts objects separated by any white space. Brackets around the elements of an array, and
//! commas between them, are replaced by white space once they are checked: an array has to end, and its
//! elements have to be objects. Bytes are replaced in place, so nothing is copied or buffered.

use memchr::memchr2;

use super::cut::BYTE_ORDER_MARK;

/// The reason why a file is not a sequence of JSON objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotObjects {
    /// The first byte begins neither an object nor an array.
    #[error("it begins with {0:?}, neither with an object nor with an array")]
    Start(char),
    /// An element of the array is not an object.
    #[error("element {0} of the array begins with {1:?}: it is not an object")]
    Element(u64, char),
    /// Another byte in place of a comma or the end of the array.
    #[error("{1:?} after element {0} of the array, where a comma or ']' is expected")]
    Comma(u64, char),
    /// More bytes after the array.
    #[error("{0:?} after the end of the array")]
    AfterEnd(char),
    /// The file ends within the array.
    #[error("the array is cut off after {0} elements: the file ends before its ']'")]
    CutOff(u64),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Place {
    /// Before any byte that is not white space.
    Start,
    /// Objects without an array around them.
    Lines,
    /// In the array, before an element. Before the first one, the array may end.
    Element {
        first: bool,
    },
    /// In an element, within `depth` brackets.
    Inside {
        depth: u32,
    },
    /// After an element.
    Comma,
    AfterEnd,
}

/// Replaces brackets and commas around objects in a file's bytes by white space.
#[derive(Debug, Clone)]
pub struct Objects {
    place: Place,
    in_string: bool,
    escaped: bool,
    /// Number of bytes of the file read before.
    position: usize,
    elements: u64,
}

impl Default for Objects {
    fn default() -> Self {
        Self::from_place(Place::Start)
    }
}

impl Objects {
    /// For a part of a file that begins with an object, so the file is not an array.
    pub(super) fn in_lines() -> Self {
        Self::from_place(Place::Lines)
    }

    fn from_place(place: Place) -> Self {
        Self {
            place,
            in_string: false,
            escaped: false,
            position: 0,
            elements: 0,
        }
    }

    /// Replaces brackets and commas in the next bytes of the file.
    ///
    /// # Errors
    /// The file is not a sequence of JSON objects.
    pub fn feed(&mut self, bytes: &mut [u8]) -> Result<(), NotObjects> {
        let mut at = 0;
        while at < bytes.len() && self.place != Place::Lines {
            if let Place::Inside { depth } = self.place {
                at = self.inside(bytes, at, depth);
                continue;
            }
            let byte = bytes[at];
            if self.place == Place::Start && BYTE_ORDER_MARK.get(self.position) == Some(&byte) {
                bytes[at] = b' ';
            } else if !byte.is_ascii_whitespace() {
                self.between(&mut bytes[at])?;
            }
            self.position += 1;
            // The first byte of an element is processed again, as part of the element.
            at += usize::from(!matches!(self.place, Place::Inside { depth: 0 }));
        }
        Ok(())
    }

    /// Processes a byte around elements.
    fn between(&mut self, byte: &mut u8) -> Result<(), NotObjects> {
        let shown = char::from(*byte);
        self.place = match (self.place, *byte) {
            (Place::Start, b'{') => Place::Lines,
            (Place::Start, b'[') => Place::Element { first: true },
            (Place::Start, _) => return Err(NotObjects::Start(shown)),
            (Place::Element { .. }, b'{') => {
                self.elements += 1;
                Place::Inside { depth: 0 }
            }
            (Place::Element { first: true } | Place::Comma, b']') => Place::AfterEnd,
            (Place::Element { .. }, _) => return Err(NotObjects::Element(self.elements + 1, shown)),
            (Place::Comma, b',') => Place::Element { first: false },
            (Place::Comma, _) => return Err(NotObjects::Comma(self.elements, shown)),
            (Place::AfterEnd, _) => return Err(NotObjects::AfterEnd(shown)),
            (place @ (Place::Lines | Place::Inside { .. }), _) => place,
        };
        if !matches!(self.place, Place::Inside { .. } | Place::Lines) {
            *byte = b' ';
        }
        Ok(())
    }

    /// Skips an element from `at` on. Returns its end, or the end of the bytes.
    fn inside(&mut self, bytes: &[u8], mut at: usize, mut depth: u32) -> usize {
        while at < bytes.len() {
            if self.escaped {
                self.escaped = false;
                at += 1;
                continue;
            }
            if self.in_string {
                let Some(found) = memchr2(b'"', b'\\', &bytes[at..]) else {
                    at = bytes.len();
                    break;
                };
                at += found + 1;
                match bytes[at - 1] {
                    b'"' => self.in_string = false,
                    _ => self.escaped = true,
                }
                continue;
            }
            match bytes[at] {
                b'"' => self.in_string = true,
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            at += 1;
            if depth == 0 {
                self.place = Place::Comma;
                return at;
            }
        }
        self.place = Place::Inside { depth };
        at
    }

    /// Checks that the file may end here.
    ///
    /// # Errors
    /// The array has no end.
    pub fn finish(&self) -> Result<(), NotObjects> {
        match self.place {
            Place::Start | Place::Lines | Place::AfterEnd => Ok(()),
            Place::Inside { .. } => Err(NotObjects::CutOff(self.elements - 1)),
            Place::Element { .. } | Place::Comma => Err(NotObjects::CutOff(self.elements)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The objects of a file that is read in pieces of `step` bytes.
    fn objects(text: &str, step: usize) -> Result<String, NotObjects> {
        let mut bytes = text.as_bytes().to_vec();
        let mut objects = Objects::default();
        for piece in bytes.chunks_mut(step) {
            objects.feed(piece)?;
        }
        objects.finish()?;
        Ok(String::from_utf8(bytes)
            .expect("UTF-8")
            .split_whitespace()
            .collect())
    }

    fn whole(text: &str) -> Result<String, NotObjects> {
        let all = objects(text, usize::MAX);
        for step in [1, 2, 5] {
            assert_eq!(objects(text, step), all, "{text:?} by {step}");
        }
        all
    }

    #[test]
    fn json_arrays_become_sequences_of_objects() {
        assert_eq!(
            whole("[{\"a\": 1}, {\"a\": [2, {}]}]\n").expect("objects"),
            "{\"a\":1}{\"a\":[2,{}]}"
        );
        assert_eq!(
            whole("[\n  {\n \"a\": \"],}\\\"[\"\n  }\n]").expect("objects"),
            "{\"a\":\"],}\\\"[\"}"
        );
        assert_eq!(whole("\u{feff}[{\"a\": 1}]").expect("objects"), "{\"a\":1}");
        assert_eq!(
            whole("\u{feff}{\"a\": 1}\n{\"a\": 2}").expect("objects"),
            "{\"a\":1}{\"a\":2}"
        );
        assert_eq!(whole(" [ ] ").expect("objects"), "");
        assert_eq!(whole("").expect("objects"), "");
    }

    #[test]
    fn files_that_are_not_json_objects_are_rejected() {
        assert_eq!(whole("[{\"a\": 1},{\"a\": 3}"), Err(NotObjects::CutOff(2)));
        assert_eq!(whole("[{\"a\": 1},{\"a\": 3"), Err(NotObjects::CutOff(1)));
        assert_eq!(whole("[{\"a\": 1},"), Err(NotObjects::CutOff(1)));
        assert_eq!(whole("["), Err(NotObjects::CutOff(0)));
        assert_eq!(whole("[1, 2]"), Err(NotObjects::Element(1, '1')));
        assert_eq!(whole("[{}, ]"), Err(NotObjects::Element(2, ']')));
        assert_eq!(whole("[{} {}]"), Err(NotObjects::Comma(1, '{')));
        assert_eq!(whole("[{}] x"), Err(NotObjects::AfterEnd('x')));
        assert_eq!(whole("a,b\n"), Err(NotObjects::Start('a')));
    }
}
