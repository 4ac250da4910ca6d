package setup

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Files of credentials within dirSecrets. No secret file of the user can have such a name.
const (
	dirDocker = "@docker" // DOCKER_CONFIG
	dirAWS    = "@aws"
)

// credentials are what the task named, ready to be written.
type credentials struct {
	registries []api.RegistryCredential
	stores     []s3Profile
}

// s3Profile is an S3 account under the name of its secret.
type s3Profile struct {
	name string
	api.S3Credential
}

// readCredentials sorts the fetched values into credentials. The keys tell the types apart: the
// server sends only whole ones of the two types.
func readCredentials(refs []api.CredentialRef, values map[api.SecretRef]string) (credentials, error) {
	var c credentials
	for _, ref := range refs {
		data := map[string]string{}
		for at, value := range values {
			if at.Secret == ref.Secret && (api.SecretRegistry.Has(at.Key) || api.SecretS3.Has(at.Key)) {
				data[at.Key] = value
			}
		}
		var err error
		if _, registry := data[api.KeyServer]; registry {
			var r api.RegistryCredential
			r, err = api.ReadRegistry(data)
			if slices.ContainsFunc(c.registries, func(o api.RegistryCredential) bool { return o.Server == r.Server }) {
				err = fault.New(fault.Invalid, "TwoAccounts", fault.T("Two credentials are for the registry %s.", "有两个凭据都用于镜像仓库 %s。", r.Server))
			}
			c.registries = append(c.registries, r)
		} else {
			var s api.S3Credential
			s, err = api.ReadS3(data)
			c.stores = append(c.stores, s3Profile{ref.Secret, s})
		}
		if err != nil {
			return c, fmt.Errorf("secret %s: %w", ref.Secret, err)
		}
	}
	return c, nil
}

// write makes the files; a process finds them by the variables of variables. own makes each of them, and their folders, the process's: dir
// stays ours, and each folder is while there is something to write in it.
func (c credentials) write(dir string, own func(string) error) error {
	files := map[string][]byte{}
	if len(c.registries) > 0 {
		files[filepath.Join(dirDocker, "config.json")] = c.dockerConfig()
	}
	if len(c.stores) > 0 {
		secrets, config := c.awsFiles()
		files[filepath.Join(dirAWS, "credentials")], files[filepath.Join(dirAWS, "config")] = secrets, config
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := filepath.Join(dir, name)
		for _, folder := range []struct {
			path string
			mode os.FileMode
		}{{dir, 0o755}, {filepath.Dir(path), 0o700}} { // in this order; what lies around it is closed
			if err := os.Mkdir(folder.path, folder.mode); err != nil && !errors.Is(err, os.ErrExist) {
				return err
			}
		}
		if err := errors.Join(os.WriteFile(path, files[name], 0o600), own(path)); err != nil {
			return err
		}
	}
	for _, folder := range []string{dirDocker, dirAWS} {
		if err := own(filepath.Join(dir, folder)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// variables say where the files are; the values themselves are in no environment.
func (c credentials) variables(dir string) map[string]string {
	out := map[string]string{}
	if len(c.registries) > 0 {
		out["DOCKER_CONFIG"] = filepath.Join(dir, dirDocker)
		out["REGISTRY_AUTH_FILE"] = filepath.Join(dir, dirDocker, "config.json")
	}
	if len(c.stores) > 0 {
		out["AWS_SHARED_CREDENTIALS_FILE"] = filepath.Join(dir, dirAWS, "credentials")
		out["AWS_CONFIG_FILE"] = filepath.Join(dir, dirAWS, "config")
	}
	return out
}

// basicAuth is how docker's file keeps an account.
func basicAuth(r api.RegistryCredential) string {
	return base64.StdEncoding.EncodeToString([]byte(r.Username + ":" + r.Password))
}

func (c credentials) dockerConfig() []byte {
	type account struct {
		Auth string `json:"auth"`
	}
	auths := map[string]account{}
	for _, r := range c.registries {
		auths[r.Server] = account{basicAuth(r)}
	}
	data, err := json.Marshal(map[string]any{"auths": auths})
	if err != nil {
		panic(err) // texts only
	}
	return append(data, '\n')
}

// awsFiles are the shared credentials and the config: a profile for each secret, and as default the
// one called so, or else the first.
func (c credentials) awsFiles() (secrets, config []byte) {
	profiles := c.stores
	if !slices.ContainsFunc(profiles, func(p s3Profile) bool { return p.name == "default" }) {
		profiles = append([]s3Profile{{"default", profiles[0].S3Credential}}, profiles...)
	}
	var hidden, open strings.Builder
	line := func(b *strings.Builder, key, value string) {
		if value != "" {
			fmt.Fprintf(b, "%s = %s\n", key, value)
		}
	}
	for _, p := range profiles {
		fmt.Fprintf(&hidden, "[%s]\n", p.name)
		line(&hidden, "aws_access_key_id", p.AccessKeyID)
		line(&hidden, "aws_secret_access_key", p.SecretAccessKey)
		line(&hidden, "aws_session_token", p.SessionToken)
		section := "profile " + p.name
		if p.name == "default" {
			section = p.name
		}
		fmt.Fprintf(&open, "[%s]\n", section)
		line(&open, "region", p.Region)
		line(&open, "endpoint_url", p.Endpoint)
	}
	return []byte(hidden.String()), []byte(open.String())
}

// hidden are the texts that must not be seen in the log: the values that are the way in, also in
// the spelling of docker's file. Where and who stays readable.
func (c credentials) hidden() []string {
	var out []string
	for _, r := range c.registries {
		out = append(out, r.Password, basicAuth(r))
	}
	for _, s := range c.stores {
		out = append(out, s.AccessKeyID, s.SecretAccessKey, s.SessionToken)
	}
	return out
}
