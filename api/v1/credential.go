package v1

import (
	"github.com/fermi-cluster/fermi/internal/fault"
)

// RegistryCredential is an account at a registry of images.
type RegistryCredential struct {
	Server   string // host, host:port, or the address under which docker login keeps it
	Username string
	Password string `json:"-"`
}

// S3Credential is an account at an object store that speaks S3.
type S3Credential struct {
	AccessKeyID     string `json:"-"`
	SecretAccessKey string `json:"-"`
	SessionToken    string `json:"-"` // may be ""
	Endpoint        string // "": the vendor's own
	Region          string // "": the client's default
}

// String tells no secret, so that a log line does not either.
func (c RegistryCredential) String() string { return "account " + c.Username + " at " + c.Server }

// String tells no secret, so that a log line does not either.
func (c S3Credential) String() string { return "account at " + c.Endpoint + " " + c.Region }

// ReadRegistry is the credential in the opened values of a secret of type registry.
func ReadRegistry(data map[string]string) (RegistryCredential, error) {
	if err := readable(SecretRegistry, data); err != nil {
		return RegistryCredential{}, err
	}
	return RegistryCredential{Server: data[KeyServer], Username: data[KeyUsername], Password: data[KeyPassword]}, nil
}

// ReadS3 is the credential in the opened values of a secret of type s3.
func ReadS3(data map[string]string) (S3Credential, error) {
	if err := readable(SecretS3, data); err != nil {
		return S3Credential{}, err
	}
	return S3Credential{
		AccessKeyID: data[KeyAccessKeyID], SecretAccessKey: data[KeySecretAccessKey], SessionToken: data[KeySessionToken],
		Endpoint: data[KeyEndpoint], Region: data[KeyRegion],
	}, nil
}

// readable holds values against their type once more: they are about to become files that other
// programs parse.
func readable(t SecretType, data map[string]string) error {
	var f faults
	f.secretData("spec.data", t, data)
	fields := append(f.list, MissingSecretKeys(t, func(key string) bool { return data[key] != "" })...)
	if len(fields) == 0 {
		return nil
	}
	return fault.New(fault.Invalid, "BadCredential", fault.T("The secret is no usable credential of type %s.", "该密钥不是可用的 %s 类型凭据。", t)).WithFields(fields...)
}
