package v1

import (
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// Secret holds values that go in and never come out through the API: they reach only the processes
// of tasks of the same project that name them.
type Secret struct {
	Meta   Meta         `json:"metadata"`
	Spec   SecretSpec   `json:"spec"`
	Status SecretStatus `json:"status,omitzero"`
}

// Kind is Secret.
func (*Secret) Kind() Kind { return KindSecret }

// GetMeta is the metadata.
func (s *Secret) GetMeta() *Meta { return &s.Meta }

// SecretSpec is the user's wish.
type SecretSpec struct {
	Description string `json:"description,omitempty"`
	// Type never changes: tasks name the secret for what it is.
	Type SecretType `json:"type,omitempty" doc:"opaque (default), git, registry or s3; says which keys there are and never changes."`
	// Data is taken in, sealed, and never kept or shown as it is. An update replaces the keys it
	// names; an empty value removes a key.
	Data map[string]string `json:"data,omitempty" doc:"Write-only: values by key. An update replaces the keys it names; an empty value removes one."`
	// Sealed is what the store keeps.
	Sealed map[string]string `json:"sealed,omitempty" doc:"Never shown."`
}

// SecretStatus shows what may be shown.
type SecretStatus struct {
	Keys []string `json:"keys,omitempty" doc:"Which keys have a value."`
}

// SecretRef names one value of a secret of the same project.
type SecretRef struct {
	Secret string `json:"secret"`
	Key    string `json:"key"`
}

// SecretFile puts a value into the file $FERMI_SECRETS/NAME.
type SecretFile struct {
	Name   string `json:"name" doc:"File name within $FERMI_SECRETS."`
	Secret string `json:"secret"`
	Key    string `json:"key"`
}

// CredentialRef names a secret of the same project, of type registry or s3, whose files the task's
// processes find where the usual clients look for them.
type CredentialRef struct {
	Secret string `json:"secret"`
}

const (
	maxCredentials = 16
	maxSecretKeys  = 64
	maxSecretValue = 256 << 10
	maxSecretFiles = 64
)

// SealContext is where a sealed value belongs; moved elsewhere it does not open.
func SealContext(project, name, key string) string { return project + "/" + name + "/" + key }

// Default fills what the user left out.
func (s *Secret) Default() {
	if s.Spec.Type == "" {
		s.Spec.Type = SecretOpaque
	}
}

// Validate lists every refused field. No value is ever repeated in a text.
func (s *Secret) Validate() []fault.Field {
	var f faults
	f.description("spec.description", s.Spec.Description)
	if n := len(s.Spec.Data); n > maxSecretKeys {
		f.add("spec.data", "There are %d keys; at most %d are allowed.", "共有 %d 个键，最多允许 %d 个。", n, maxSecretKeys)
		return f.list
	}
	for _, key := range slices.Sorted(maps.Keys(s.Spec.Data)) {
		value := s.Spec.Data[key]
		f.secretKey(child("spec.data", key), key)
		if len(value) > maxSecretValue || !utf8.ValidString(value) {
			f.add(child("spec.data", key), "A value is UTF-8 text of at most %d bytes; write binary ones as base64.", "值应为不超过 %d 字节的 UTF-8 文本；二进制内容请写成 base64。", maxSecretValue)
		}
	}
	f.secretData("spec.data", s.Spec.Type, s.Spec.Data)
	return f.list
}

func (f *faults) secretKey(at, key string) {
	ok := key != "" && len(key) <= 63 && key != "." && key != ".."
	for i := 0; i < len(key) && ok; i++ {
		c := key[i]
		ok = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.'
	}
	if !ok {
		f.add(at, "A key has 1 to 63 letters, digits, '.', '-' or '_'.", "键由 1 到 63 个字母、数字、'.'、'-' 或 '_' 组成。")
	}
}

func (f *faults) secretRef(at, secret, key string) {
	f.name(at+".secret", secret)
	f.secretKey(at+".key", key)
}

func (f *faults) secretFiles(at string, files []SecretFile) {
	if len(files) > maxSecretFiles {
		f.add(at, "There are %d files; at most %d are allowed.", "共有 %d 个文件，最多允许 %d 个。", len(files), maxSecretFiles)
		return
	}
	seen := map[string]bool{}
	for i, file := range files {
		here := item(at, i)
		f.secretKey(here+".name", file.Name)
		f.secretRef(here, file.Secret, file.Key)
		if seen[file.Name] {
			f.add(here+".name", "Two files are called %s.", "有两个文件都叫 %s。", quote(file.Name))
		}
		seen[file.Name] = true
	}
}

func (f *faults) credentials(at string, refs []CredentialRef) {
	if len(refs) > maxCredentials {
		f.add(at, "There are %d credentials; at most %d are allowed.", "共有 %d 个凭据，最多允许 %d 个。", len(refs), maxCredentials)
		return
	}
	seen := map[string]bool{}
	for i, ref := range refs {
		here := item(at, i) + ".secret"
		f.name(here, ref.Secret)
		if seen[ref.Secret] {
			f.add(here, "%s is named twice.", "%s 重复出现。", quote(ref.Secret))
		}
		seen[ref.Secret] = true
	}
}
