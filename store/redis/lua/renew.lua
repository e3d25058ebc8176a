-- Sets a lease. ARGV: floor, session, how long in microseconds; returns 1, or 0 when there is no such session.
if not redis.call('ZSCORE', p .. 'leases', ARGV[2]) then return 0 end
redis.call('ZADD', p .. 'leases', plain(clock(ARGV[1]) + ARGV[3]), ARGV[2])
return 1
