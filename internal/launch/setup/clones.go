package setup

import (
	"context"
	"errors"
	"path/filepath"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/mount"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/launch/chore"
	"github.com/fermi-cluster/fermi/internal/launch/gitcode"
	"github.com/fermi-cluster/fermi/internal/launch/retry"
)

// again does something until it is done, or can't be.
func again(ctx context.Context, s *Supplies, yet string, do func() error) error {
	for pause := retry.First; ; pause = min(2*pause, retry.Most) {
		err := do()
		if err == nil || ctx.Err() != nil || finalFault(err) {
			return err
		}
		s.log.Warn(yet, "error", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.clock.After(pause):
		}
	}
}

// cloneBy has a chore bring a repository.
func cloneBy(ctx context.Context, s *Supplies, g *api.Git, order func(chore.Clone) chore.Order) (chore.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, gitPatience)
	defer cancel()
	secret := map[string]string{}
	for ref, value := range s.secrets {
		if ref.Secret == g.Secret {
			secret[ref.Key] = value
		}
	}
	done, err := s.at.runChore(ctx, order(chore.Clone{Source: gitcode.Source{URL: g.URL, Revision: g.Revision, Submodules: g.Submodules, Secret: secret}, Tmp: s.at.Home.tmp()}))
	if err != nil {
		if s.gitTries++; s.gitTries >= maxGitTries && !isOurs(err) {
			return done, fault.New(fault.Unavailable, "GitUnreachable", fault.T("The repository could not be brought in %d [try|tries]: %v.", "尝试 %d 次仍无法获取仓库：%v。", s.gitTries, err)).
				WithHint(fault.T("Check spec.code.git.url and that the node reaches it.", "请检查 spec.code.git.url 以及节点能否访问。")).Because(err)
		}
		return done, err
	}
	s.gitTries = 0
	return done, nil
}

// BringClones has the home's repositories in it, and tries until they are there or can't be.
func BringClones(ctx context.Context, s *Supplies) error {
	home := HomeOf(s.at.Home.Dir, s.at.Home.Replica)
	if home == "" {
		return nil
	}
	for i := range s.at.Home.Replica.Clones {
		c := &s.at.Home.Replica.Clones[i]
		err := again(ctx, s, "repository not cloned yet", func() error { return cloneHome(ctx, s, c, home) })
		if err != nil {
			var f *fault.Error
			if errors.As(err, &f) { // what is said of a task's code is said of this field
				f.Message, f.Hint = inField(f.Message, c.Field), inField(f.Hint, c.Field)
			}
			return asStartFault(err)
		}
	}
	return nil
}

func inField(t fault.Text, field string) fault.Text {
	return fault.Text{EN: strings.ReplaceAll(t.EN, "spec.code.git", field), ZH: strings.ReplaceAll(t.ZH, "spec.code.git", field)}
}

func cloneHome(ctx context.Context, s *Supplies, c *mount.Clone, home string) error {
	git := api.Git{URL: c.URL, Revision: c.Revision, Submodules: c.Submodules, Secret: c.Secret}
	done, err := cloneBy(ctx, s, &git, func(o chore.Clone) chore.Order {
		o.Dir = filepath.Join(home, c.Folder)
		return chore.Order{Settle: &chore.Settle{Clone: o, Links: c.Links}}
	})
	if err == nil && done.Commit != "" { // otherwise it was there
		s.notes.Notice("%s", fault.T("~/%s: %s at %s", "~/%s：%s，提交 %s", c.Folder, c.URL, done.Commit).Pack())
	}
	return err
}
