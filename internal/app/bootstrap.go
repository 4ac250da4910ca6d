package app

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/id"
	"github.com/fermi-cluster/fermi/internal/server/door"
	"github.com/fermi-cluster/fermi/internal/store"
)

const (
	defaultName = "default"
	adminName   = "admin"
	tokenFile   = "admin.token"

	adminTokenTitle = "Administrator's token of this folder"
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
	for _, o := range []api.Object{
		&api.Queue{Meta: meta("queue", defaultName, "default")},
		&api.Project{Meta: meta("proj", defaultName, "default"), Spec: api.ProjectSpec{Queue: defaultName}, Status: api.ProjectStatus{Grants: api.GrantsVersion}},
		&api.User{Meta: meta("user", adminName, "Administrator"), Spec: api.UserSpec{Role: api.RoleAdmin}},
	} {
		if d, ok := o.(api.Defaulter); ok {
			d.Default()
		}
		if err := p.createOnce(ctx, o); err != nil {
			return err
		}
	}
	if err := p.adminToken(ctx, meta); err != nil {
		return err
	}
	if err := p.grantArchives(ctx); err != nil {
		return err
	}
	p.started.Store(true)
	p.collect()
	(*aftermath)(p).warnOfKey(ctx)
	p.greet(ctx)
	return nil
}

func (p *part) createOnce(ctx context.Context, o api.Object) error {
	if _, err := p.store.Get(ctx, api.KeyOf(o), 0); err == nil {
		return nil
	}
	revision, err := p.store.Commit(ctx, store.Txn{Ops: []store.Op{store.Create(o)}})
	if fault.ReasonOf(err) == "NameTaken" {
		return nil // another server was faster
	}
	if err != nil {
		return err
	}
	_, err = p.store.Get(ctx, api.KeyOf(o), revision) // who calls us once we are ready must find it
	return err
}

// adminToken sees to it that the token in the file works: the file is written first, then its
// hash goes into the store; a crash in between is mended here at the next start.
func (p *part) adminToken(ctx context.Context, meta func(prefix, name, display string) api.Meta) error {
	path := filepath.Join(p.cfg.Data, tokenFile)
	secret, err := readToken(path)
	if errors.Is(err, fs.ErrNotExist) {
		if secret, _, err = door.NewSecret(adminName+"-"+id.Default.Random(6), rand.Reader); err == nil {
			err = writeOnce(path, []byte(secret+"\n"))
		}
	}
	if err != nil {
		return fmt.Errorf("admin token: %w", err)
	}
	if err := p.forgetToken(ctx); err != nil {
		return fmt.Errorf("old admin token: %w", err)
	}
	name := strings.Split(secret, "_")[1]
	t := &api.Token{Meta: meta("tok", name, adminTokenTitle), Spec: api.TokenSpec{User: adminName, Hash: door.HashSecret(secret)}}
	return p.createOnce(ctx, t)
}

func readToken(path string) (string, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	secret := strings.TrimSpace(string(raw))
	if len(strings.Split(secret, "_")) < 3 || len(secret) > 256 {
		return "", fmt.Errorf("%s does not hold a token; delete it and start again to get a new one", path)
	}
	return secret, nil
}

// greet tells the person who started it what to do next. The sign-in code works once, and stands in
// the fragment, which no browser sends anywhere.
func (p *part) greet(ctx context.Context) {
	url := "http://" + p.cfg.Listen
	tlsLine, tlsEnv := "", ""
	if p.cert != nil {
		url = "https://" + p.cfg.Listen
	}
	if p.cfg.SelfSigned {
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
	token := filepath.Join(p.cfg.Data, tokenFile)
	fmt.Fprintf(p.cfg.Out, `
  Fermi %s is up at %s%s
  data   %s
  token  %s%s

  In another terminal:
    export FERMI_SERVER=%s%s FERMI_TOKEN=$(cat %s)
    fermi train run -- fermi sample train

`, p.cfg.Version, url, tlsLine, p.cfg.Data, token, signIn, url, tlsEnv, token)
}
