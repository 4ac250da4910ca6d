package ckpt

import "context"

// EachIn gives f every committed checkpoint of every tier, tier by tier, oldest first. A tier that open
// says nil of is none. Those that can't be read are left out.
func EachIn(ctx context.Context, tiers []string, open func(tier string) (*Repo, error), f func(tier string, c Checkpoint)) error {
	for _, tier := range tiers {
		repo, err := open(tier)
		if err != nil {
			return err
		}
		if repo == nil {
			continue
		}
		found, _, err := repo.List(ctx)
		if err != nil {
			return err
		}
		for _, c := range found {
			f(tier, c)
		}
	}
	return nil
}
