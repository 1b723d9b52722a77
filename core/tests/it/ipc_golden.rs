//! Files and streams of other Arrow implementations, good and bad.
