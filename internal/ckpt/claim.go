package ckpt

import (
	"context"
	"strings"
)

// What several machines have is written by one of them. Each fills a pack in memory and then claims it: by its chunks,
// in this step, put if absent, with the key the pack will have. Who comes later names that pack, which has the same
// bytes in the same places, and goes on with the next, while the first one writes: so they share the work. A claim only
// saves bytes. Where one is in doubt the pack is written again, and Commit refuses a pack that no save of the
// checkpoint has written.

const maxClaim = 1 << 10

// Share says that other machines save their ranks of the same step into this repository. Before the first Rank.
func (s *Save) Share() { s.shared, s.rooms = true, make(chan []byte, writers+1) }

// roomBytes is what a large pack may come to.
func (s *Save) roomBytes() int { return 2*s.repo.cfg.PackBytes + s.repo.cfg.ChunkBytes }

// vacate gives the memory of a pack to the next one.
func (s *Save) vacate(p *pack) {
	if cap(p.whole) < s.roomBytes() {
		return
	}
	select {
	case s.rooms <- p.whole[:0]:
	default:
	}
}

// claimPack gives the key of the pack with these chunks that another machine writes; "": it is ours to write.
func (s *Save) claimPack(ctx context.Context, p *pack) string {
	id := sum(p.hashes).String()
	name := claimsDir + manifestName(s.generation, s.step) + "/" + id[:2] + "/" + id
	if _, err := s.repo.cfg.Store.Create(ctx, s.repo.key(name), strings.NewReader(p.key)); err == nil {
		return ""
	}
	raw, err := s.repo.read(ctx, name, maxClaim)
	if other := string(raw); err == nil && other != p.key && ownKey(other, packsDir) {
		return other
	}
	return ""
}

// unclaim deletes the claims of steps that are over: a newer checkpoint is there, or nobody went on for a grace.
func (c *collector) unclaim(ctx context.Context) error {
	claims, err := c.repo.list(ctx, claimsDir)
	if err != nil || len(claims) == 0 {
		return err
	}
	names, err := c.repo.names(ctx)
	if err != nil {
		return err
	}
	over := map[string]bool{}
	for _, o := range claims {
		step, _, _ := strings.Cut(strings.TrimPrefix(o.name, claimsDir), "/")
		_, _, err := parseName(step)
		old := len(names) > 0 && step <= names[len(names)-1] || c.now.Sub(o.modified) > c.repo.cfg.Grace
		if err != nil || !old || over[step] {
			continue
		}
		over[step] = true
		if err := c.repo.delete(ctx, claimsDir+step+"/"); err != nil {
			return err
		}
	}
	return nil
}
