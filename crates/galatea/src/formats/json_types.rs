//! The types of JSON objects.
//!
//! Types are inferred during parsing, so keys keep their order in the file.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// The type of one or several values.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) enum JsonType {
    #[default]
    Null,
    Boolean,
    Integer,
    Float,
    /// Strings, or scalars of several kinds.
    Text,
    List(Box<JsonType>),
    Object(Keys),
    /// Objects or lists, and other values: no column type represents them.
    Mixed,
}

/// Keys of objects with their types, in the order of their first occurrence.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Keys {
    types: Vec<(String, JsonType)>,
    places: HashMap<String, usize>,
}

impl Keys {
    fn add(&mut self, key: String, value: JsonType) {
        match self.places.get(&key) {
            Some(place) => {
                let known = &mut self.types[*place].1;
                *known = std::mem::take(known).and(value);
            }
            None => {
                self.places.insert(key.clone(), self.types.len());
                self.types.push((key, value));
            }
        }
    }

    /// The columns of objects with these keys. The error is the first key that has no column type.
    pub(super) fn fields(&self) -> Result<Fields, String> {
        let field = |(key, value): &(String, JsonType)| {
            let data_type = value.data_type().map_err(|inner| match inner.as_str() {
                "" => key.clone(),
                inner => format!("{key}.{inner}"),
            })?;
            Ok(Arc::new(Field::new(key, data_type, true)))
        };
        self.types.iter().map(field).collect()
    }
}

impl JsonType {
    /// The type of the values of both.
    pub(super) fn and(self, other: Self) -> Self {
        use JsonType::{Float, Integer, List, Mixed, Null, Object, Text};
        match (self, other) {
            (Null, known) | (known, Null) => known,
            (List(one), List(other)) => List(Box::new(one.and(*other))),
            (Object(mut one), Object(other)) => {
                for (key, value) in other.types {
                    one.add(key, value);
                }
                Object(one)
            }
            (Integer, Float) | (Float, Integer) => Float,
            (one, other) if one == other => one,
            (List(_) | Object(_) | Mixed, _) | (_, List(_) | Object(_) | Mixed) => Mixed,
            _ => Text,
        }
    }

    fn data_type(&self) -> Result<DataType, String> {
        Ok(match self {
            Self::Boolean => DataType::Boolean,
            Self::Integer => DataType::Int64,
            Self::Float => DataType::Float64,
            Self::Null => DataType::Null,
            Self::Text => DataType::Utf8,
            Self::List(element) => DataType::new_list(element.data_type()?, true),
            Self::Object(keys) => DataType::Struct(keys.fields()?),
            Self::Mixed => return Err(String::new()),
        })
    }
}

impl<'de> Deserialize<'de> for JsonType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Types)
    }
}

struct Types;

impl<'de> Visitor<'de> for Types {
    type Value = JsonType;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<JsonType, E> {
        Ok(JsonType::Null)
    }

    fn visit_bool<E>(self, _: bool) -> Result<JsonType, E> {
        Ok(JsonType::Boolean)
    }

    fn visit_i64<E>(self, _: i64) -> Result<JsonType, E> {
        Ok(JsonType::Integer)
    }

    fn visit_u64<E>(self, value: u64) -> Result<JsonType, E> {
        let fits = i64::try_from(value).is_ok();
        Ok(if fits { JsonType::Integer } else { JsonType::Float })
    }

    fn visit_f64<E>(self, _: f64) -> Result<JsonType, E> {
        Ok(JsonType::Float)
    }

    fn visit_str<E>(self, _: &str) -> Result<JsonType, E> {
        Ok(JsonType::Text)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<JsonType, A::Error> {
        let mut all = JsonType::Null;
        while let Some(element) = elements.next_element()? {
            all = all.and(element);
        }
        Ok(JsonType::List(Box::new(all)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<JsonType, A::Error> {
        let mut keys = Keys::default();
        while let Some((key, value)) = entries.next_entry()? {
            keys.add(key, value);
        }
        Ok(JsonType::Object(keys))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(objects: &str) -> Result<Vec<(String, DataType)>, String> {
        let types = serde_json::Deserializer::from_str(objects).into_iter::<JsonType>();
        let all = types.fold(JsonType::Null, |all, next| all.and(next.expect("JSON")));
        let JsonType::Object(keys) = all else {
            panic!("objects");
        };
        let fields = keys.fields()?;
        Ok(fields
            .iter()
            .map(|field| (field.name().clone(), field.data_type().clone()))
            .collect())
    }

    #[test]
    fn columns_keep_the_order_of_the_file() {
        let found =
            columns("{\"b\": 1, \"a\": true}\n{\"c\": null, \"a\": false, \"b\": 2.5}").expect("columns");
        let expected = [
            ("b".to_owned(), DataType::Float64),
            ("a".to_owned(), DataType::Boolean),
            ("c".to_owned(), DataType::Null),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn scalars_of_several_kinds_are_string() {
        let found = columns("{\"a\": 1, \"l\": [1]}{\"a\": \"x\", \"l\": [null, \"x\"]}{\"a\": true}")
            .expect("columns");
        assert_eq!(found[0].1, DataType::Utf8);
        assert_eq!(found[1].1, DataType::new_list(DataType::Utf8, true));
    }

    #[test]
    fn objects_and_scalars_have_no_type() {
        assert_eq!(columns("{\"a\": 1}{\"a\": {\"b\": 1}}"), Err("a".to_owned()));
        assert_eq!(
            columns("{\"a\": {\"b\": [1]}}{\"a\": {\"b\": 2}}"),
            Err("a.b".to_owned())
        );
    }
}
