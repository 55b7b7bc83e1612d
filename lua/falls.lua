-- The first instant at which no more than these units of a limit count, if nothing is charged. Writes nothing.
--
-- ARGV after the caller's terms: the number of the limit, units.
-- Reply: 'falls', the instant: now when it is so already.
-- Cost: O(log n), and the blocks that must leave first.

if ledger.skew then
  return ledger.skew
end
local limit = limits[number()]
add_up(ledger, limit)
return { 'falls', open_forecast(ledger).falls_to(limit, number()) }
