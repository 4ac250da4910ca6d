// Package ckpt keeps checkpoints: from the slots in memory (L0) to a local disk (L1) or a shared
// store (L2), and back, for any number of ranks.
//
// Place: layer 4, over the port blob: a tier is a Repo in any blob.Store that can put if absent. The
// format is docs/reference/checkpoint-format.md. How a save goes:
//
//	Begin            lease: what the save relies on stays
//	Save.Share       where other machines save too: what they have as well is written by one of them
//	Save.Rank        slot → chunks → BLAKE3 → packs of new chunks, then one part that says what lies where
//	Commit           one manifest, put if absent: now the checkpoint exists
//	Save.End         the lease goes
//
// Promise:
//  1. What Commit returned is restored to the bit, or, where bytes were lost since, refused; then
//     the newest older checkpoint is restored that is whole. Nothing unverified is ever given.
//  2. A save that ended at any moment changes nothing that is committed.
//  3. Collect deletes nothing that a committed checkpoint, or one that can still be committed, names.
//  4. A generation that was superseded does not commit.
//
// Enemies: torn writes, flipped bits, full disks, two writers of one name, savers that die between
// any two writes, ranks that change their slot while it is read, manifests made by somebody else.
package ckpt
