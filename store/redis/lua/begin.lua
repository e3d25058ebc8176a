-- What each script begins with. KEYS[1] is the prefix of all keys, with their hash tag.
local p = KEYS[1]

-- plain is a whole number as Redis writes it.
local function plain(n) return string.format('%.0f', n) end

-- clock is the time in microseconds, and never before the floor that the caller has seen already. Tests give it whole, behind =.
local function clock(floor)
  if floor:sub(1, 1) == '=' then return tonumber(floor:sub(2)) end
  local t = redis.call('TIME')
  return math.max(t[1] * 1000000 + t[2], tonumber(floor))
end
