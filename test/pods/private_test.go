package pods

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/test/harness"
)

func (w *world) secrets() (out []corev1.Secret) {
	w.t.Helper()
	var list corev1.SecretList
	w.s.Must(w.t, "GET", "/api/v1/namespaces/"+w.namespace+"/secrets", nil, &list)
	return list.Items
}

// TestPrivateImage: a member's account at a registry reaches the kubelet, by one Secret for the gang, and no longer than its pods are there.
func TestPrivateImage(t *testing.T) {
	w := up(t)
	ann := w.member("ann", "lab")
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("pa55word"), 0o600); err != nil {
		t.Fatal(err)
	}
	ann.must("secret", "set", "images", "password="+file, "--type", "registry", "--plain", "server=registry.example.org:5000", "--plain", "username=ann", "--project", "lab")
	ann.must("train", "run", "-d", "--name", "private", "--project", "lab", "--zone", "k1", "--replicas", "2", "--image", "registry.example.org:5000/team/train:v3", "--credential", "images", "--", "sleep", "600")
	harness.Eventually(t, "it runs", func() bool {
		task, err := client.Get[*api.TrainingTask](t.Context(), w.cl, "lab", "private")
		return err == nil && task.Status.Phase == api.PhaseRunning
	})
	list := w.secrets()
	if len(list) != 1 || !strings.Contains(string(list[0].Data[corev1.DockerConfigJsonKey]), `"registry.example.org:5000":{"username":"ann","password":"pa55word"`) {
		t.Fatalf("%+v", list)
	}
	for _, pod := range w.pods() {
		if s := pod.Spec.ImagePullSecrets; len(s) != 1 || s[0].Name != list[0].Name {
			t.Errorf("%s: %v", pod.Name, s)
		}
	}
	ann.must("delete", "task", "private", "--project", "lab")
	w.noPods()
	if left := w.secrets(); len(left) != 0 {
		t.Errorf("%d Secrets stay", len(left))
	}
}
