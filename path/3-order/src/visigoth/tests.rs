mod claim;
pub(crate) mod counted;
mod gather;
mod reach;
mod register;
pub(crate) mod rounds;
