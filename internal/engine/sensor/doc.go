// Package sensor reads what the devices of this machine say of themselves: through their maker's tool, in sysfs, and in the
// kernel's log.
//
// Place: layer 3, beside the inventory; it judges nothing. Promise: a reading is what the tool said, and what it did not say
// is unknown; no call takes longer than its bounds, however the driver hangs; one card that fails hides no other; only
// lines that the kernel itself wrote are told. Enemies: a driver that never answers, output without end, a log that a
// program can write.
package sensor
