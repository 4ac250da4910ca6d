package setup

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/mount"
	"github.com/fermi-cluster/fermi/internal/launch/process"
	"github.com/fermi-cluster/fermi/internal/launch/retry"
	"github.com/fermi-cluster/fermi/internal/link"
)

// dirSecrets is $FERMI_SECRETS within the replica's folder; it is there only while the process is.
const dirSecrets = "secrets"

// BringSecrets fetches what the replica names, teaches the log to hide it, and writes the files.
func (s *Supplies) BringSecrets(ctx context.Context) error {
	named := len(s.at.Home.Replica.SecretFiles)+len(s.at.Home.Replica.Credentials) > 0
	for _, v := range s.at.Home.Replica.Env {
		named = named || v.ValueFrom != nil
	}
	if c := s.at.Home.Replica.Code; c != nil && c.Git != nil && c.Git.Secret != "" {
		named = true
	}
	for _, c := range s.at.Home.Replica.Clones {
		named = named || c.Secret != ""
	}
	named = named || len(mount.Buckets(s.at.Home.Replica.Mounts.Datasets)) > 0
	if !named {
		return nil
	}
	for pause := retry.First; ; pause = min(2*pause, retry.Most) {
		values, err := s.from.FetchSecrets(ctx)
		if err == nil {
			s.secrets = values
			break
		}
		if link.Permanent(err) {
			return process.CantStart(process.CodeNotExecutable, err,
				"A secret that the task names is not there, or can't be opened; see the task's env, secretFiles and credentials.",
				"任务引用的密钥不存在或无法解密；请检查任务的 env、secretFiles 和 credentials。")
		}
		s.log.Warn("secrets not fetched yet", "error", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.clock.After(pause):
		}
	}
	creds, err := readCredentials(s.at.Home.Replica.Credentials, s.secrets)
	if err != nil {
		return process.CantStart(process.CodeNotExecutable, err,
			"A credential that the task names can't be used, or two are for the same registry; see the task's credentials.",
			"任务引用的凭据不可用，或有两个凭据用于同一镜像仓库；请检查任务的 credentials。")
	}
	s.creds = creds
	s.notes.Hide(append(s.hidden(), creds.hidden()...))
	if err := s.writeSecrets(); err != nil {
		return err
	}
	return creds.write(filepath.Join(s.at.Home.Dir, dirSecrets), s.at.Home.Give)
}

// hidden are all fetched values but those that a credential leaves readable: its server, user,
// endpoint and region. One that is a variable or a file too is hidden.
func (s *Supplies) hidden() []string {
	readable := map[api.SecretRef]bool{}
	accounts := slices.Clone(s.at.Home.Replica.Credentials)
	for _, from := range mount.Buckets(s.at.Home.Replica.Mounts.Datasets) {
		accounts = append(accounts, api.CredentialRef{Secret: from.Secret})
	}
	for _, c := range accounts {
		for ref := range s.secrets {
			if ref.Secret == c.Secret && (api.SecretRegistry.Public(ref.Key) || api.SecretS3.Public(ref.Key)) {
				readable[ref] = true
			}
		}
	}
	for _, v := range s.at.Home.Replica.Env {
		if v.ValueFrom != nil {
			delete(readable, *v.ValueFrom)
		}
	}
	for _, f := range s.at.Home.Replica.SecretFiles {
		delete(readable, api.SecretRef{Secret: f.Secret, Key: f.Key})
	}
	var out []string
	for ref, value := range s.secrets {
		if !readable[ref] {
			out = append(out, value)
		}
	}
	return out
}

func (s *Supplies) writeSecrets() error {
	if len(s.at.Home.Replica.SecretFiles) == 0 {
		return nil
	}
	dir := filepath.Join(s.at.Home.Dir, dirSecrets)
	if err := os.MkdirAll(dir, 0o755); err != nil { // what lies around it is closed
		return err
	}
	for _, f := range s.at.Home.Replica.SecretFiles {
		ref := api.SecretRef{Secret: f.Secret, Key: f.Key}
		path := filepath.Join(dir, filepath.Base(f.Name))
		if err := os.WriteFile(path, []byte(s.secrets[ref]), 0o400); err != nil {
			return err
		}
		if err := s.at.Home.Give(path); err != nil {
			return err
		}
	}
	return nil
}

// DropSecrets removes the files; a launcher that is killed leaves them to the engine, which removes
// the whole folder.
func (s *Supplies) DropSecrets() {
	if err := errors.Join(os.RemoveAll(filepath.Join(s.at.Home.Dir, dirSecrets)), dropAccess(s.at.Home.Dir)); err != nil {
		s.log.Error("secret files could not be removed", "error", err)
	}
}
