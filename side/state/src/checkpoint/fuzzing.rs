//! Bodies of fuzz targets, as functions that stable tests run, too.
