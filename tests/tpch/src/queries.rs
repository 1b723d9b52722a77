//! The queries of TPC-H.

macro_rules! queries {
    ($($number:literal),*) => {
        /// The queries by number, with the parameters of the specification's validation.
        pub const QUERIES: &[(&str, &str)] =
            &[$(($number, include_str!(concat!("../queries/q", $number, ".sql")))),*];
    };
}

queries!(
    "01", "02", "03", "04", "05", "06", "07", "08", "09", "10", "11", "12", "13", "14", "15", "16",
    "17", "18", "19", "20", "21", "22"
);
