//! Judging the dead letters.

use super::Finding;
use crate::{
    cli::{Error, Letter},
    model::chain,
};

const CHECK: &str = "dead letters";

/// How new a letter is news, in milliseconds.
const NEWS_MS: i64 = 3_600_000;

/// Judges by the newest letter, if there is any.
pub(super) fn judge(newest: Result<&[Letter], &Error>, now: jiff::Timestamp) -> Finding {
    let letter = match newest {
        Ok([letter, ..]) => letter,
        Ok([]) => return Finding::ok(CHECK, "none"),
        Err(Error::Topics(crate::topics::Error::Missing { .. })) => {
            return Finding::ok(CHECK, "not checked: the topic is missing");
        }
        Err(Error::Kafka(error)) if error.is_authorization() => {
            return Finding::ok(CHECK, "not checked: this user may not read them");
        }
        Err(error) => return Finding::warning(CHECK, chain(error), "look at the brokers, and try again"),
    };
    let resource = letter.resource.as_deref().unwrap_or("unknown resource");
    let why = letter.why.as_deref().unwrap_or("written by another tool");
    let reason = letter.reason.as_deref().unwrap_or_default();
    let time = letter.timestamp.and_then(|time| jiff::Timestamp::from_millisecond(time).ok());
    let time = time.map(|time| format!("{time:.0}")).unwrap_or_default();
    let found = format!("the newest is of {time}, bucket {}: {resource}, {why}: {reason}", letter.bucket);
    let is_news = letter.timestamp.is_some_and(|time| now.as_millisecond().saturating_sub(time) < NEWS_MS);
    if is_news {
        let todo =
            "read them with `control-bus dead-letters list`; when the cause is gone, `dead-letters replay`";
        return Finding::warning(CHECK, found, todo);
    }
    Finding::ok(CHECK, found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::check::Verdict;

    #[test]
    fn only_a_letter_of_the_last_hour_is_a_warning() {
        let now = jiff::Timestamp::from_millisecond(10 * NEWS_MS).unwrap();
        let of = |ago: i64| Letter { timestamp: Some(10 * NEWS_MS - ago), ..Letter::default() };
        let judged = |letters: &[Letter]| judge(Ok(letters), now).result;
        assert_eq!(judged(&[]), Verdict::Ok);
        assert_eq!(judged(&[of(NEWS_MS - 1)]), Verdict::Warning);
        assert_eq!(judged(&[of(NEWS_MS)]), Verdict::Ok);
    }
}
