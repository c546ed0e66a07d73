use super::{Asked, described};
use crate::{Context, Typed, TypedService};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Named;

impl TypedService for Named {
    type Command = ();
    type Reply = ();
    type Query = ();
    type Answer = ();
    const NAME: &'static str = "named";
    const VERSION: u32 = 3;

    fn execute(&mut self, (): (), _: &Context) {}
    fn query(&self, (): (), _: &Context) {}
}

#[test]
fn a_program_takes_one_argument() {
    let asked = |arguments: &[&str]| Asked::of(arguments.iter().map(Into::into));
    assert_eq!(asked(&["r.toml"]), Ok(Asked::Replica("r.toml".into())));
    assert_eq!(asked(&["--service"]), Ok(Asked::Service));
    assert_eq!(asked(&["--help"]), Ok(Asked::Help));
    assert_eq!(asked(&["--config"]), Err("there is no option --config".into()));
    assert_eq!(asked(&[]), Err("the configuration of the replica is missing".into()));
    assert_eq!(asked(&["a", "b"]), Err("one argument is wanted, and 2 came".into()));
}

#[test]
fn a_program_says_which_service_it_is() {
    assert_eq!(described(&Typed(Named)), "named 3");
}
