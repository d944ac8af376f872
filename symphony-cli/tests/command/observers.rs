//! Whoever looks on may fail in any way: the work goes on and ends well (contract 13.1).
