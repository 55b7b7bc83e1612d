-- Numbers that have a name. They are replaced when a script is assembled.

-- The charges of a block of the log, and the most that one holds before it is divided.
local BLOCK = 64
local LONGEST_BLOCK = 128
-- A charge adds 1 to the sequence. Everything else that changes what is used adds this, so that a machine also notices a
-- lost correction. It is a multiple of each number of charges after which something is done.
local STRIDE = 512

-- The most limits that the state itself holds. Where there are more, each has a field of its own.
local MOST_TOGETHER = 64
-- The byte that is the state where limits have fields of their own. MessagePack never uses it: an earlier release, which would
-- take the limits for unknown, fails and refuses the charge.
local APART = 193

-- The places in the state.
local EPOCH = 1
local SERVER = 2
local SEQUENCE = 3
local NEWEST = 4
local KEEP = 5
local RENEWAL = 6
local FLOORS = 7
-- The place of the first limit, and the distance to the next.
local FIRST_PLACE = 8
local NEXT_PLACE = 6
-- In the part of a limit, from its place on.
local RULE = 1
local TOTAL = 2
local HEAD = 3
local CLOSED = 4
local PROBING = 5
-- The first floor in a limit's field.
local FIRST_FLOOR = 7
