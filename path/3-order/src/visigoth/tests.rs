mod register;
