-- Closes a limit that the upstream called spent, or takes that back. Of two closings the later holds.
--
-- ARGV after the common ones: the limit's name; 'until' and an instant; or 'probing' and '': for an hour, then one
-- charge may try; or 'reopen' and ''.
-- Reply: 'closed', epoch, sequence, now.
-- Cost: O(1).

local HOUR = 60 * 60 * 1000000

local name, how, instant = word(), word(), number()
local limit = by_name[name]

if objection then
  return objection
end
if not epoch or served_by ~= server then
  begin_epoch()
end
if limit then
  local closed = how == 'probing' and now + HOUR or instant
  code_of(limit)
  if how == 'reopen' then
    limit.closed, limit.probing = 0, false
  elseif closed > limit.closed then
    limit.closed, limit.probing = closed, how == 'probing'
  end
end
commit(true)
return { 'closed', epoch, text(sequence), text(now) }
