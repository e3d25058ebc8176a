-- The clock. ARGV: floor; returns microseconds.
return plain(clock(ARGV[1]))
