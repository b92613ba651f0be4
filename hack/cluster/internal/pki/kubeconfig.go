package pki

import (
	"fmt"

	"sigs.k8s.io/yaml"
)

// WriteKubeconfig writes a kubeconfig with one context, named by the cluster,
// for the holder of a client certificate.
func WriteKubeconfig(file, cluster, server string, authority, client *Pair) error {
	type named map[string]any
	content, err := yaml.Marshal(map[string]any{
		"apiVersion": "v1",
		"kind":       "Config",
		"clusters": []named{{"name": cluster, "cluster": map[string]any{
			"server": server, "certificate-authority-data": authority.certPEM,
		}}},
		"users": []named{{"name": cluster, "user": map[string]any{
			"client-certificate-data": client.certPEM, "client-key-data": client.keyPEM,
		}}},
		"contexts":        []named{{"name": cluster, "context": map[string]any{"cluster": cluster, "user": cluster}}},
		"current-context": cluster,
	})
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return writeFile(file, content)
}
