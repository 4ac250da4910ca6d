package slot

// Magic begins every slot; its last byte is the version of the layout.
const Magic = "FERMIL0\x01"

// States of a slot, as its header says them.
const (
	Copied = 1 // the data is there, its check sums are not yet
	Whole  = 2 // everything is there
)

// Sizes in bytes.
const (
	Header = 76       // the fields of the header, its own check sum included
	Data   = 4096     // where the data begins; the header has this page alone
	Sum    = 8 << 20  // how much of the data one check sum covers
	Room   = 64 << 10 // a slot may be larger than its state by this, so that a longer tree needs no new mapping
)
