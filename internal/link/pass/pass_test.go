package pass

import "testing"

func TestPass(t *testing.T) {
	made := Make("env-1-env-0-1", "token")
	if replica, ok := Read(made); !ok || replica != "env-1-env-0-1" || !Fits(made, replica, "token") {
		t.Errorf("%q is not taken", made)
	}
	if Fits(made, "env-1-env-0-1", "other") || Fits(made, "env-1-env-0-2", "token") {
		t.Error("it fits another")
	}
	for _, secret := range []string{"", "fermireplica_", "fermireplica__" + made[len(made)-43:], "fermi_admin_" + made[len(made)-43:], made[:len(made)-1], made + "x"} {
		if _, ok := Read(secret); ok {
			t.Errorf("%q is a pass", secret)
		}
	}
}
