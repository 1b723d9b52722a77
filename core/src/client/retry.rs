//! When an attempt that failed is made again: how often, after which pause, and what is said once there is no other.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use tokio::time::Instant;

use super::pool::Patience;
use crate::error::{Attempts, Error, ErrorCode, Result};
use crate::options::Options;

const RETRIES: u32 = 3;

const RETRY_BACKOFF: Duration = Duration::from_millis(50);

/// No pause is longer, whatever the server or the options say.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The attempts at one thing, until it moves on.
pub(super) struct Retry {
    most: u32,
    base: Duration,
    started: Instant,
    failed: u32,
    /// What went wrong the last time.
    last: Option<String>,
}

impl Retry {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            most: options.retries.unwrap_or(RETRIES),
            base: options.retry_backoff.unwrap_or(RETRY_BACKOFF),
            started: Instant::now(),
            failed: 0,
            last: None,
        }
    }

    /// How many attempts have failed.
    pub(super) fn failed(&self) -> u32 {
        self.failed
    }

    /// Counts anew, as something has come of the last attempt.
    pub(super) fn moved_on(&mut self) {
        if self.failed > 0 {
            self.failed = 0;
            self.last = None;
        }
        self.begin();
    }

    /// Measures time from now on.
    pub(super) fn begin(&mut self) {
        self.started = Instant::now();
    }

    /// Counts an attempt that failed.
    ///
    /// # Errors
    /// The error where there may be no other attempt, with what was done about it.
    pub(super) fn count(&mut self, error: Error) -> Result<Error> {
        if !error.is_retryable() || self.failed >= self.most {
            return Err(self.ended(error));
        }
        self.failed += 1;
        self.last = Some(error.to_string());
        Ok(error)
    }

    /// How long to wait after the `failures`th failure in a row of one server: twice as long as before, but not at the
    /// same time as others that failed with it, and no less than the server has asked for.
    pub(super) fn pause(&self, failures: u32, error: &Error) -> Duration {
        let exponent = failures.saturating_sub(1).min(20);
        let grown = self
            .base
            .saturating_mul(1 << exponent)
            .min(LONGEST_PAUSE)
            .mul_f64(0.5 + 0.5 * random_part());
        let asked = error.detail().retry_after.unwrap_or_default();
        let asked = asked.min(LONGEST_PAUSE).mul_f64(1.0 + 0.25 * random_part());
        grown.max(asked)
    }

    /// Waits before the next attempt.
    ///
    /// # Errors
    /// `deadline_exceeded`, at once, where the time limit ends before the wait does.
    pub(super) async fn wait_until(&self, then: Instant, patience: &Patience) -> Result<()> {
        if then <= Instant::now() {
            return Ok(());
        }
        if let Some(error) = patience.ends_before(then) {
            return Err(self.given_up(error, self.failed));
        }
        tokio::time::sleep_until(then).await;
        Ok(())
    }

    /// The error of the last attempt, with what was done about it.
    pub(super) fn ended(&self, error: Error) -> Error {
        self.given_up(error, self.failed + 1)
    }

    fn given_up(&self, error: Error, attempts: u32) -> Error {
        if self.last.is_none() && !error.is_retryable() {
            return error;
        }
        let error = match &self.last {
            Some(last) if error.code() == ErrorCode::DeadlineExceeded && !error.is_retryable() => {
                error.followed_by(format_args!("the attempt before failed: {last}"))
            }
            _ => error,
        };
        error.with_attempts(Attempts {
            count: attempts,
            elapsed: self.started.elapsed(),
        })
    }
}

/// A number from 0 to 1 that differs from call to call and process to process.
fn random_part() -> f64 {
    let bits = RandomState::new().hash_one(());
    // 53 bits, which is what a double holds exactly.
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(values: &[(&str, &str)]) -> Options {
        values
            .iter()
            .try_fold(Options::default(), |options, (name, value)| {
                options.with(name, value)
            })
            .unwrap()
    }

    fn busy(asked: Duration) -> Error {
        Error::resource_exhausted("busy")
            .with_retryable(true)
            .with_retry_after(asked)
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_double_and_differ_and_end_at_a_minute() {
        let retry = Retry::new(&options(&[("retry_backoff", "100ms")]));
        let error = Error::unavailable("nobody is there");
        for (failures, longest) in [
            (1, 100),
            (2, 200),
            (3, 400),
            (10, 51_200),
            (11, 60_000),
            (u32::MAX, 60_000),
        ] {
            let longest = Duration::from_millis(longest);
            let pauses: Vec<Duration> = (0..100).map(|_| retry.pause(failures, &error)).collect();
            let within = longest / 2..=longest;
            assert!(
                pauses.iter().all(|pause| within.contains(pause)),
                "{pauses:?}"
            );
            let spread = *pauses.iter().max().unwrap() - *pauses.iter().min().unwrap();
            assert!(spread > longest / 8, "{spread:?} of {longest:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_is_given_the_time_that_it_asks_for() {
        let retry = Retry::new(&options(&[("retry_backoff", "1ms")]));
        for _ in 0..100 {
            let asked = Duration::from_millis(500);
            let pause = retry.pause(1, &busy(asked));
            assert!((asked..=asked * 5 / 4).contains(&pause), "{pause:?}");
            let pause = retry.pause(1, &busy(Duration::MAX));
            assert!(pause <= LONGEST_PAUSE * 5 / 4, "{pause:?}");
        }
    }

    /// Tries what always fails that way, and gives the error and what time it took.
    async fn given_up(options: &Options, make: impl Fn() -> Error) -> (Error, Duration) {
        let (start, patience) = (Instant::now(), Patience::from_now(options));
        let mut retry = Retry::new(options);
        let error = loop {
            tokio::time::sleep(Duration::from_millis(10)).await;
            let error = match retry.count(make()) {
                Ok(error) => error,
                Err(error) => break error,
            };
            let then = Instant::now() + retry.pause(retry.failed(), &error);
            if let Err(error) = retry.wait_until(then, &patience).await {
                break error;
            }
        };
        (error, start.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_are_counted_and_end() {
        let options = options(&[("retries", "4"), ("retry_backoff", "1s")]);
        let (error, took) = given_up(&options, || Error::unavailable("nobody is there")).await;
        let attempts = error.detail().attempts.unwrap();
        assert_eq!((attempts.count, attempts.elapsed), (5, took));
        assert!((7.5..15.1).contains(&took.as_secs_f64()), "{took:?}");
        assert!(error.to_string().contains("5 attempts in "), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_cannot_get_better_is_not_tried_again() {
        let (error, took) =
            given_up(&Options::default(), || Error::not_found("no such table")).await;
        assert_eq!((error.detail().attempts, took.as_millis()), (None, 10));
    }

    #[tokio::test(start_paused = true)]
    async fn no_pause_outlasts_the_time_limit() {
        let options = options(&[("retries", "100"), ("timeout", "5s")]);
        let (error, took) = given_up(&options, || busy(Duration::from_secs(2))).await;
        assert_eq!(error.code(), ErrorCode::DeadlineExceeded);
        assert!((2.0..5.0).contains(&took.as_secs_f64()), "{took:?}");
        let text = error.to_string();
        let said = ["option timeout", "busy", "attempts in "];
        assert!(said.iter().all(|said| text.contains(said)), "{text}");
    }
}
