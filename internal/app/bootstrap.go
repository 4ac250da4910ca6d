package app

import (
	"context"
	"fmt"
	"path/filepath"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/app/kinds"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine/inventory"
	"github.com/fermi-cluster/fermi/internal/id"
)

const (
	defaultName = "default"
	adminName   = "admin"
)

// bootstrap makes what every cluster has, once, and then says that the server is up.
func (p *part) bootstrap(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-p.store.Ready():
	}
	now := clock.Real.Now().UTC()
	meta := func(prefix, name, display string) api.Meta {
		return api.Meta{ID: id.Default.New(prefix), Name: name, DisplayName: display, CreatedAt: now, UpdatedAt: now}
	}
	for _, o := range kinds.WithCatalogue([]api.Object{
		&api.Queue{Meta: meta("queue", defaultName, "default")},
		&api.Project{Meta: meta("proj", defaultName, "default"), Spec: api.ProjectSpec{Queue: defaultName}, Status: api.ProjectStatus{Grants: api.GrantsVersion}},
		&api.User{Meta: meta("user", adminName, "Administrator"), Spec: api.UserSpec{Role: api.RoleAdmin}},
	}, meta, func(k api.Key) error { _, err := p.store.Get(ctx, k, 0); return err }) {
		if d, ok := o.(api.Defaulter); ok {
			d.Default()
		}
		if err := createOnce(ctx, p.store, o); err != nil {
			return err
		}
	}
	if err := p.admin.ensure(ctx, meta); err != nil {
		return err
	}
	if err := p.grantArchives(ctx); err != nil {
		return err
	}
	p.started.Store(true)
	p.collect()
	(&aftermath{p.cfg, p.store, p.history, p.keys.Box}).warnOfKey(ctx)
	p.greet(ctx)
	return nil
}

// greet tells the person who started it what to do next. The sign-in code works once, and stands in
// the fragment, which no browser sends anywhere.
func (p *part) greet(ctx context.Context) {
	url := "http://" + p.cfg.Listen
	tlsLine, tlsEnv := "", ""
	if p.cert != nil {
		url = "https://" + p.cfg.Listen
	}
	if p.cfg.TLS.SelfSigned {
		tlsLine = "\n  certificate SHA-256 " + fingerprint(p.cert)
		tlsEnv = " FERMI_TLS_FINGERPRINT=" + fingerprint(p.cert)
	}
	code, err := p.api.SignInCode(ctx, adminName)
	signIn := ""
	if err != nil { // no store just now, or somebody else is the admin: `fermi signin` makes another
		p.cfg.Log.Warn("no sign-in code was made", "error", err)
	} else {
		signIn = "\n  sign in within 5 minutes, once: " + url + "/#code=" + code
	}
	more := ""
	if inventory.IsDemo(p.cfg.Zones) { // its nodes begin empty: what runs there holds devices and processes of this machine, and is charged
		more = "    fermi sample environments   # four environments to work and to train in\n"
	}
	token := filepath.Join(p.cfg.Data, tokenFile)
	fmt.Fprintf(p.cfg.Out, `
  Fermi %s is up at %s%s
  data   %s
  token  %s%s

  In another terminal:
    export FERMI_SERVER=%s%s FERMI_TOKEN=$(cat %s)
    fermi train run -- fermi sample train
%s
`, p.cfg.Version, url, tlsLine, p.cfg.Data, token, signIn, url, tlsEnv, token, more)
}
