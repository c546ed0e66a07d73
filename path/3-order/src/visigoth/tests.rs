mod gather;
mod register;
