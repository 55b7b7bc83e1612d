-- When no more than so many units of a limit count, if nobody charges. Writes nothing.
--
-- ARGV after the common ones: the number of the limit, units.
-- Reply: 'falls', the instant: now where it is so already.
-- Cost: O(log n), and the blocks that must leave first.

if skew then
  return skew
end
local limit = limits[number()]
add_up(limit)
return { 'falls', open_archive().falls_to(limit, number()) }
