package rootfs

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// source is an image as its registry has it.
type source struct {
	digest string
	name   string   // for words
	image  v1.Image // nil: only what is here counts
}

// silence is how long a registry may say nothing before it is asked again.
var silence = time.Minute

// patient is a way to registries that does not wait for ever; what is in the middle of a layer is fetch's.
func patient() http.RoundTripper {
	t := remote.DefaultTransport.(*http.Transport).Clone()
	t.ResponseHeaderTimeout = silence
	return t
}

// platform is ours.
var platform = v1.Platform{OS: "linux", Architecture: runtime.GOARCH}

// ask finds what a reference stands for on this machine.
func ask(ctx context.Context, ref name.Reference, accounts []api.RegistryCredential) (source, error) {
	options := []remote.Option{remote.WithContext(ctx), remote.WithPlatform(platform), remote.WithTransport(patient()), remote.WithAuth(accountFor(ref, accounts))}
	found, err := remote.Get(ref, options...)
	if err != nil {
		return source{}, explain(ref, err)
	}
	image, err := found.Image()
	if err != nil {
		if found.MediaType.IsIndex() && !temporary(err) {
			return source{}, otherPlatform(ref, err)
		}
		return source{}, explain(ref, err)
	}
	digest, err := image.Digest()
	if err != nil {
		return source{}, explain(ref, err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		return source{}, explain(ref, err)
	}
	if config.OS != platform.OS || config.Architecture != platform.Architecture {
		return source{}, otherPlatform(ref, nil)
	}
	return source{digest: digest.String(), name: ref.Name(), image: image}, nil
}

// accountFor is who we are at the reference's registry.
func accountFor(ref name.Reference, accounts []api.RegistryCredential) authn.Authenticator {
	at := slices.IndexFunc(accounts, func(a api.RegistryCredential) bool {
		server := strings.TrimSuffix(strings.TrimPrefix(a.Server, "https://"), "/")
		server, _, _ = strings.Cut(server, "/")
		registry, err := name.NewRegistry(server)
		return err == nil && registry.Name() == ref.Context().RegistryStr()
	})
	if at < 0 {
		return authn.Anonymous
	}
	return &authn.Basic{Username: accounts[at].Username, Password: accounts[at].Password}
}

// Explain is explain for who asks a registry by other ways.
func Explain(ref name.Reference, err error) error { return explain(ref, err) }

// explain makes a fault of what asking again does not mend.
func explain(ref name.Reference, err error) error {
	var said *transport.Error
	if !errors.As(err, &said) || temporary(err) {
		return err
	}
	switch said.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return fault.New(fault.Forbidden, "ImageDenied", fault.T("The registry does not let this project read the image %s.", "镜像仓库不允许该项目读取镜像 %s。", ref)).
			WithHint(fault.T("Store an account as a secret of type registry, and name it in spec.credentials.", "请将帐号存为 registry 类型的密钥，并在 spec.credentials 中引用。")).Because(err)
	case http.StatusNotFound:
		return fault.New(fault.NotFound, "NoSuchImage", fault.T("There is no image %s at its registry.", "镜像仓库中没有镜像 %s。", ref)).
			WithHint(fault.T("Check its name and tag; one that is private needs an account in spec.credentials.", "请检查名称与标签；私有镜像需在 spec.credentials 中给出帐号。")).Because(err)
	}
	return fault.New(fault.Invalid, "ImageRefused", fault.T("The registry answered %d when asked for the image %s.", "请求镜像 %[2]s 时仓库应答 %[1]d。", said.StatusCode, ref)).Because(err)
}

// temporary says that asking again may help.
func temporary(err error) bool {
	var said *transport.Error
	if !errors.As(err, &said) {
		return false
	}
	return said.StatusCode >= 500 || said.StatusCode == http.StatusTooManyRequests || said.Temporary()
}

func otherPlatform(ref name.Reference, cause error) error {
	return fault.New(fault.Invalid, "OtherPlatform", fault.T("The image %s is not made for %s.", "镜像 %s 不适用于 %s。", ref, platform.OS+"/"+platform.Architecture)).
		WithHint(fault.T("Build it for this platform too, or place the task on nodes of its own.", "请同时为该平台构建，或将任务放到匹配的节点。")).Because(cause)
}
