//! Parameters of queries and values of results, common to both databases.

use std::borrow::Cow;

use rusqlite::ToSql;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSqlOutput, ValueRef};

/// A parameter of a query.
#[derive(Clone, Debug)]
pub(crate) enum Value<'a> {
    /// NULL of type text.
    Null,
    /// NULL of type real. A NULL that is read is [`Self::Null`].
    NullReal,
    Whole(i64),
    Real(f64),
    Text(Cow<'a, str>),
}

/// A type that a column can be read as.
pub(crate) trait Column: FromSql {
    /// Converts a value of a server. `None` if it has another type.
    #[cfg(feature = "postgres")]
    fn from_value(cell: PgValue) -> Option<Self>;
}

/// A value of a server's row.
#[cfg(feature = "postgres")]
pub(crate) enum PgValue {
    Null,
    /// An integer, or a boolean as 0 or 1.
    Whole(i64),
    Real(f64),
    Text(String),
}

macro_rules! whole_column {
    ($($number:ty),*) => {$(
        impl Column for $number {
            #[cfg(feature = "postgres")]
            fn from_value(value: PgValue) -> Option<Self> {
                if let PgValue::Whole(number) = value { number.try_into().ok() } else { None }
            }
        }
    )*};
}

whole_column!(i64, u32);

impl Column for bool {
    #[cfg(feature = "postgres")]
    fn from_value(value: PgValue) -> Option<Self> {
        if let PgValue::Whole(number) = value { Some(number != 0) } else { None }
    }
}

impl Column for f64 {
    #[cfg(feature = "postgres")]
    fn from_value(value: PgValue) -> Option<Self> {
        if let PgValue::Real(number) = value { Some(number) } else { None }
    }
}

impl Column for String {
    #[cfg(feature = "postgres")]
    fn from_value(value: PgValue) -> Option<Self> {
        if let PgValue::Text(text) = value { Some(text) } else { None }
    }
}

impl<T: Column> Column for Option<T> {
    #[cfg(feature = "postgres")]
    fn from_value(value: PgValue) -> Option<Self> {
        if let PgValue::Null = value { Some(None) } else { T::from_value(value).map(Some) }
    }
}

impl FromSql for Value<'static> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        match value {
            ValueRef::Null => Ok(Self::Null),
            ValueRef::Integer(number) => Ok(Self::Whole(number)),
            ValueRef::Real(number) => Ok(Self::Real(number)),
            ValueRef::Text(_) => value.as_str().map(|text| Self::Text(Cow::Owned(text.into()))),
            ValueRef::Blob(_) => Err(FromSqlError::InvalidType),
        }
    }
}

impl Column for Value<'static> {
    #[cfg(feature = "postgres")]
    fn from_value(value: PgValue) -> Option<Self> {
        Some(match value {
            PgValue::Null => Self::Null,
            PgValue::Whole(number) => Self::Whole(number),
            PgValue::Real(number) => Self::Real(number),
            PgValue::Text(text) => Self::Text(text.into()),
        })
    }
}

impl ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null | Self::NullReal => ValueRef::Null,
            Self::Whole(number) => ValueRef::Integer(*number),
            Self::Real(number) => ValueRef::Real(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
        }))
    }
}

impl Value<'_> {
    /// Returns a value of a column of type real.
    pub(crate) fn real(number: Option<f64>) -> Self {
        number.map_or(Self::NullReal, Self::Real)
    }
}

impl From<i64> for Value<'_> {
    fn from(number: i64) -> Self {
        Self::Whole(number)
    }
}

impl From<u32> for Value<'_> {
    fn from(number: u32) -> Self {
        Self::Whole(number.into())
    }
}

impl From<f64> for Value<'_> {
    fn from(number: f64) -> Self {
        Self::Real(number)
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Value<'_> {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

impl<'a, T: Into<Value<'a>>> From<Option<T>> for Value<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}
