package serve

import (
	"slices"

	"github.com/fermi-cluster/fermi/api/v1/serving"
)

// split are the zones with as many replicas each as they have when a service that scales wants so many in its primary ones: each its least, then one after
// the other where there are fewest for the weight (Sainte-Laguë). One more that is wanted takes none away anywhere. A backup has its own while any are wanted; all counts
// them too.
func split(zones []serving.ServiceZone, want int) (out []serving.ServiceZone, all int) {
	out = slices.Clone(zones)
	left := want
	for i := range out {
		z := &out[i]
		switch {
		case want == 0:
			z.Replicas = 0
		case z.Role != serving.ZoneBackup:
			z.Replicas = z.MinReplicas
			left -= z.MinReplicas
		}
	}
	for ; left > 0; left-- {
		best, most := -1, 0.0
		for i := range out {
			z := &out[i]
			if z.Role == serving.ZoneBackup || z.MaxReplicas > 0 && z.Replicas >= z.MaxReplicas {
				continue
			}
			if claim := float64(max(z.Weight, 1)) / float64(2*z.Replicas+1); best < 0 || claim > most {
				best, most = i, claim
			}
		}
		if best < 0 {
			break // all have their most
		}
		out[best].Replicas++
	}
	for _, z := range out {
		all += z.Replicas
	}
	return out, all
}

// isBackup says that a zone gets requests only where no other does.
func isBackup(zones []serving.ServiceZone, zone string) bool {
	return slices.ContainsFunc(zones, func(z serving.ServiceZone) bool { return z.Zone == zone && z.Role == serving.ZoneBackup })
}
