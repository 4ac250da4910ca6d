package ckpt

import "context"

// EachIn gives f every committed checkpoint of every tier, tier by tier, oldest first, and then those whose record can't be
// read. A tier that open says nil of is none.
func EachIn(ctx context.Context, tiers []string, open func(tier string) (*Repo, error), f func(tier string, c Checkpoint)) error {
	for _, tier := range tiers {
		repo, err := open(tier)
		if err != nil {
			return err
		}
		if repo == nil {
			continue
		}
		found, unread, err := repo.List(ctx)
		if err != nil {
			return err
		}
		for _, c := range append(found, unread...) {
			if c.Step > 0 { // what has no checkpoint's name is none
				f(tier, c)
			}
		}
	}
	return nil
}
