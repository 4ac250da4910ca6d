package imagejob

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/fermi-cluster/fermi/internal/fault"
)

func TestBases(t *testing.T) {
	var got []string
	for _, ref := range bases([]byte("# FROM none\nARG A\nARG B=\"b/c:1\"\nARG C=no\nFROM ${B}\nFROM $C\nFROM --platform=linux/amd64 registry.example.org:5000/a/b:1 AS first\nRUN x\nfrom first\nFROM scratch\nFROM $A\nFROM Bad//Name\nFROM python:3.12 as last\n"), []string{"C=from/args:2", "D=x"}) {
		got = append(got, ref.String())
	}
	if want := []string{"b/c:1", "from/args:2", "registry.example.org:5000/a/b:1", "python:3.12"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// TestPolicy: what a Dockerfile begins from is judged by buildah itself, so that no way to say it leads past an operator's word.
func TestPolicy(t *testing.T) {
	hub := strings.TrimPrefix(name.DefaultRegistry, "index.")
	all := `"containers-storage":{"":[{"type":"insecureAcceptAnything"}]}`
	for want, allowed := range map[string][]string{
		`{"default":[{"type":"reject"}],"transports":{` + all + `,"docker":{"":[{"type":"insecureAcceptAnything"}]}}}`: nil,
		`{"default":[{"type":"reject"}],"transports":{` + all + `,"docker":{"` + hub + `/library":[{"type":"insecureAcceptAnything"}],"r.example:5000/team":[{"type":"insecureAcceptAnything"}]}}}`: {
			hub + "/library/", "r.example:5000/team",
		},
	} {
		if got := string(policy(allowed)); got != want {
			t.Errorf("%q: %s, not %s", allowed, got, want)
		}
	}
}

// TestWords: what buildah and registries print becomes a reason.
func TestWords(t *testing.T) {
	for words, want := range map[string]string{
		"STEP 1/1: FROM x\nError: creating build container: initializing source docker://x:9: reading manifest 9 in x: manifest unknown: manifest unknown\n": "NoBaseImage",
		"Error: error creating build container: initializing source docker://x: reading manifest v1 in x: unauthorized: authentication required":             "BaseImageDenied",
		"Error: creating build container: pinging container registry x: Get \"http://x/v2/\": dial tcp: connect: connection refused":                         "RegistryUnreachable",
		"cat: /absent: No such file\nError: building at STEP \"RUN cat /absent\": while running runtime: exit status 1\nexit status 1\n":                     "BuildStepFailed",
		"Trying to pull x...\nError: creating build container: Source image rejected: Running image docker://x:1 is rejected by policy.\n":                   "ImageNotAllowed",
		"Error: COPY --from=x/y:1: no stage or image found with that name":                                                                                   "BadDockerfile",
		"Error: write /x: no space left on device":                                        "DiskFull",
		"Error: building at STEP \"RUN echo denied: x\": exit status 2":                   "BuildStepFailed",
		"Error: building at STEP \"DANCE \": Build error: Unknown instruction: \"DANCE\"": "BadDockerfile",
		"": "BuildFailed",
	} {
		if got := fault.ReasonOf(buildFault(words, errors.New("exit status 1"))); got != want {
			t.Errorf("%q: %s, not %s", words, got, want)
		}
	}
	to, err := name.NewTag("x.example/ab:1")
	if err != nil {
		t.Fatal(err)
	}
	for words, want := range map[string]string{
		"Error: writing blob: initiating layer upload: denied: no": "PushDenied", "Error: dial tcp: i/o timeout": "RegistryUnreachable", "Error: something else": "PushRefused",
	} {
		if got := fault.ReasonOf(pushFault(to, words, errors.New("exit status 1"))); got != want {
			t.Errorf("%q: %s, not %s", words, got, want)
		}
	}
}
