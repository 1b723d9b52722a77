//! The evaluator against the filter table, and filters of the table over the wire.

use lightstream_core::conformance::filters::{Failure, cases};
use lightstream_core::protocol::filter::{Filter, FilterLimits, Support, evaluate, support};

#[test]
fn the_evaluator_answers_as_the_table_says() {
    let (mut exact, mut inexact, mut unsupported, mut failing) = (0, 0, 0, 0);
    let mut wrong = Vec::new();
    for case in cases() {
        let support = support(&case.expr, &case.batch.schema(), case.rule);
        let answer = evaluate(&case.expr, &case.batch, case.rule);
        match support {
            Support::Exact => exact += 1,
            Support::Inexact => inexact += 1,
            Support::Unsupported => unsupported += 1,
        }
        match (case.expected(), answer) {
            (Ok(expected), Ok(answer)) => {
                let answer: Vec<_> = answer.iter().collect();
                if answer != expected {
                    wrong.push(format!("{}\n  is {answer:?}\n not {expected:?}", case.name));
                }
            }
            (Err(Failure::Arithmetic), Err(_)) if support == Support::Unsupported => failing += 1,
            (Err(Failure::Undefined), _) if support == Support::Unsupported => failing += 1,
            // What would not meet at a lossless type is refused.
            (Ok(_), Err(_)) if support == Support::Unsupported => failing += 1,
            (expected, answer) => wrong.push(format!(
                "{}\n {support:?}\n  is {answer:?}\n not {expected:?}",
                case.name
            )),
        }
    }
    println!(
        "{exact} exact, {inexact} inexact, {unsupported} unsupported, of which {failing} fail as they should"
    );
    assert!(
        wrong.is_empty(),
        "{} wrong answers:\n{}",
        wrong.len(),
        wrong[..wrong.len().min(20)].join("\n")
    );
    assert!(exact > 10_000);
}

#[test]
fn filters_of_the_table_survive_the_wire() {
    // Neighbours in the table differ in constants alone.
    for case in cases().into_iter().step_by(5) {
        let filter = Filter {
            float_rule: case.rule,
            conjuncts: vec![case.expr],
        };
        let message = filter.to_proto().unwrap();
        let read = Filter::from_proto(&message, &FilterLimits::default());
        assert_eq!(read.unwrap(), filter, "{}", case.name);
    }
}
