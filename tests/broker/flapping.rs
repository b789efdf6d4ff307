//! Members that come and go: every bucket is always served by somebody, and a tenure's handlers end with it.

mod leaving;
mod schedules;
mod tenures;
