package ckpt

import (
	"context"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// lease says which packs a save relies on; what the save writes itself carries its id.
type lease struct {
	Version int      `json:"version"`
	Packs   []string `json:"packs"`
}

func (l *lease) add(pack string) {
	if i, found := slices.BinarySearch(l.Packs, pack); !found {
		l.Packs = slices.Insert(l.Packs, i, pack)
	}
}

func (s *Save) renew(ctx context.Context) error {
	begun := s.repo.cfg.Clock.Now()
	if _, err := s.repo.put(ctx, spread(leasesDir, s.id), mustJSON(&s.lease)); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if begun.After(s.renewed) { // several may renew it at once
		s.renewed = begun
	}
	return nil
}

// keepLease renews the lease before it grows old. One that did is not taken up again: what it
// protected may be gone.
func (s *Save) keepLease(ctx context.Context) error {
	s.mu.Lock()
	age := s.repo.cfg.Clock.Now().Sub(s.renewed)
	s.mu.Unlock()
	switch grace := s.repo.cfg.Grace; {
	case age > grace/2:
		return tooSlow()
	case age > grace/8:
		return s.renew(ctx)
	}
	return nil
}

// End gives the lease up: the checkpoint is committed, or never will be.
func (s *Save) End(ctx context.Context) error { return s.repo.delete(ctx, spread(leasesDir, s.id)) }

// leases are those of all saves under way.
type leases struct{ objects }

// fresh fails unless every lease is there and young; by is the time until which they protect.
func (l leases) fresh(ctx context.Context, parts []PartRef) (left time.Duration, err error) {
	now, err := l.storeNow(ctx)
	if err != nil {
		return 0, err
	}
	found, err := l.list(ctx, leasesDir)
	if err != nil {
		return 0, err
	}
	left = l.cfg.Grace
	have := map[string]time.Time{}
	for _, o := range found {
		have[path.Base(o.name)] = o.modified
	}
	for _, p := range parts {
		modified, ok := have[p.Lease]
		age := now.Sub(modified)
		if !ok || age > l.cfg.Grace/2 {
			return 0, tooSlow()
		}
		left = min(left, l.cfg.Grace-age)
	}
	return left, nil
}

// live gives what live leases protect: packs by name, and ids of saves under way.
func (l leases) live(ctx context.Context, now time.Time) (packs, ids map[string]bool, err error) {
	packs, ids = map[string]bool{}, map[string]bool{}
	found, err := l.list(ctx, leasesDir)
	if err != nil {
		return nil, nil, err
	}
	for _, o := range found {
		if now.Sub(o.modified) > l.cfg.Grace {
			if err := l.delete(ctx, o.name); err != nil {
				return nil, nil, err
			}
			continue
		}
		one, err := l.record(ctx, o.name)
		if fault.Is(err, fault.NotFound) {
			continue // its save has just ended: what it wrote is named by its manifest, or by nobody
		}
		if err != nil {
			return nil, nil, err
		}
		ids[path.Base(o.name)] = true
		for _, p := range one.Packs {
			packs[p] = true
		}
	}
	return packs, ids, nil
}

func (l leases) of(ctx context.Context, id string) (*lease, error) {
	one, err := l.record(ctx, spread(leasesDir, id))
	if fault.Is(err, fault.NotFound) {
		one, err = l.record(ctx, leasesDir+id) // of a launcher that is older than we are
	}
	return one, err
}

func (l leases) record(ctx context.Context, name string) (*lease, error) {
	raw, err := l.read(ctx, name, maxPart)
	if err != nil {
		return nil, err
	}
	one := &lease{}
	return one, decodeStrict(raw, one)
}

// saveOf is the id of the save that wrote a pack or part.
func saveOf(name string) string {
	id, _, _ := strings.Cut(path.Base(name), "-")
	return id
}
