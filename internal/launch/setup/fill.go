package setup

import (
	"context"

	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/launch/chore"
	"github.com/fermi-cluster/fermi/internal/pattern"
)

// isDigest is the name of an image by its content.
var isDigest = pattern.New("^sha256:[0-9a-f]{64}$")

// FillHome has the home begin with the snapshot that the replica names. A home that has begun is left as it is.
func FillHome(ctx context.Context, s *Supplies) error {
	from, home := s.at.Home.Replica.HomeFrom, HomeOf(s.at.Home.Dir, s.at.Home.Replica)
	if from == nil || home == "" {
		return nil
	}
	m := dataMount{AssetRef: *from}
	m.Path = home
	if err := s.bringVersion(ctx, &m); err != nil {
		return err
	}
	wall := s.at.choreWall()
	wall.Binds = append(wall.Binds, m.held.Root) // the chore reads it; it is the project's own, as what lays it out
	way, err := s.at.sendTo(wall, chore.Order{Fill: &chore.Fill{From: m.held.Root, Home: home}}, nil)
	if err == nil {
		stop := context.AfterFunc(ctx, way.kill)
		var done chore.Result
		done, err = way.result()
		stop()
		if err == nil && s.at.Home.Replica.Layer {
			err = s.at.over.wants(from.Digest, done.Over)
		}
		if err == nil && done.Filled {
			s.notes.Notice("%s", fault.T("the home begins with %s", "主目录以 %s 为起点", nameOfVersion(*from)).Pack())
		}
	}
	if held := m.held.Close(); err == nil {
		err = held
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return asStartFault(err)
}
