mod claim;
mod gather;
mod reach;
mod register;
