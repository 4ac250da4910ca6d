package image

import (
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// Allowed says whether an image may be used where an operator named the beginnings of names that may: a registry, or a registry and the beginning
// of a path, whole words of it. None: any may.
func Allowed(reference string, prefixes []string) bool {
	if len(prefixes) == 0 {
		return true
	}
	ref, err := name.ParseReference(reference)
	if err != nil || strings.Contains(reference, "..") {
		return false
	}
	whole := ref.Context().Name() + "/"
	for _, p := range prefixes {
		if strings.HasPrefix(whole, canonical(p)+"/") {
			return true
		}
	}
	return false
}

// Scopes are the beginnings as containers' own tools have them in their policy.
func Scopes(prefixes []string) (out []string) {
	for _, p := range prefixes {
		scope := canonical(p)
		if rest, ok := strings.CutPrefix(scope, name.DefaultRegistry); ok {
			scope = strings.TrimPrefix(name.DefaultRegistry, "index.") + rest // the one of its two names that they use
		}
		out = append(out, scope)
	}
	return out
}

// canonical is a beginning as names have it: Docker's own registry goes by two.
func canonical(prefix string) string {
	registry, path, _ := strings.Cut(strings.Trim(prefix, "/"), "/")
	if r, err := name.NewRegistry(registry); err == nil {
		registry = r.RegistryStr()
	}
	return strings.TrimSuffix(registry+"/"+path, "/")
}

// IsPrefix says that an operator may name it.
func IsPrefix(prefix string) bool {
	registry, path, more := strings.Cut(strings.Trim(prefix, "/"), "/")
	if _, err := name.NewRegistry(registry, name.StrictValidation); err != nil || strings.Contains(prefix, "//") || !strings.ContainsAny(registry, ".:") && registry != "localhost" {
		return false
	}
	if !more {
		return true
	}
	_, err := name.NewRepository(registry + "/" + path)
	return err == nil
}

// NotAllowed is the refusal of an image that is not.
func NotAllowed(path, reference string, prefixes []string) *fault.Error {
	text := fault.T("The operator allows images from %[2]s only, not %[1]s.", "运维仅允许使用来自 %[2]s 的镜像，不能使用 %[1]s。", reference, strings.Join(prefixes, ", "))
	return fault.New(fault.Invalid, "ImageNotAllowed", text).WithFields(fault.Field{Path: path, Message: text}).
		WithHint(fault.T("Push it to one of these, or ask an operator (images.allow).", "请将镜像推送到上述仓库，或联系运维（images.allow）。"))
}
