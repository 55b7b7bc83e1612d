//! Values of MessagePack one after another, which Lua reads many times faster than text.

use redis::{FromRedisValue, Value, from_redis_value};

use crate::LedgerError;

/// Packs the values of an argument.
pub fn packed(values: impl IntoIterator<Item = rmpv::Value>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for value in values {
        // Writing to memory does not fail.
        let _ = rmpv::encode::write_value(&mut bytes, &value);
    }
    bytes
}

/// The values of a text, as those of any other reply.
pub fn unpacked(mut packed: &[u8]) -> Result<Vec<Value>, LedgerError> {
    let mut values = Vec::new();
    while !packed.is_empty() {
        let value = rmpv::decode::read_value(&mut packed);
        values.push(plain(value.map_err(|error| broken(&error.to_string()))?));
    }
    Ok(values)
}

fn plain(value: rmpv::Value) -> Value {
    if let Some(number) = value.as_i64() {
        return Value::Int(number);
    }
    match value {
        rmpv::Value::String(text) => Value::BulkString(text.into_bytes()),
        rmpv::Value::Binary(bytes) => Value::BulkString(bytes),
        rmpv::Value::Array(values) => Value::Array(values.into_iter().map(plain).collect()),
        rmpv::Value::Map(pairs) => {
            let pairs = pairs.into_iter();
            Value::Map(pairs.map(|(key, of)| (plain(key), plain(of))).collect())
        }
        _ => Value::Nil,
    }
}

/// Reads what a value stands for.
pub fn read<T: FromRedisValue>(value: Value) -> Result<T, LedgerError> {
    from_redis_value(value).map_err(|error| broken(&error.to_string()))
}

pub fn broken(what: &str) -> LedgerError {
    LedgerError::Broken(format!("cannot read the reply of the ledger: {what}"))
}
