//go:build integration

package integration

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// The chart's flow schemas are made as they are: they speak of the service accounts of the release mcptask.
func TestThePartsHaveAPriorityLevelOfTheirOwn(t *testing.T) {
	schemas := map[string]*flowcontrolv1.FlowSchema{}
	for _, object := range renderChart(t, []string{"templates/flowschema.yaml"}) {
		create(t, object)
		t.Cleanup(func() {
			if err := k8s.Delete(context.Background(), object); err != nil {
				t.Errorf("delete %s: %v", object.GetName(), err)
			}
		})
		if schema, ok := object.(*flowcontrolv1.FlowSchema); ok {
			schemas[schema.Name] = schema
		}
	}
	if len(schemas) != 2 {
		t.Fatalf("the chart has %d flow schemas", len(schemas))
	}
	const accounts = "system:serviceaccounts"
	tasks := "/apis/mcptask.dev/v1alpha1/namespaces/default/mcptasks"
	lease := "/apis/coordination.k8s.io/v1/namespaces/" + chartNamespace + "/leases/mcptask-controller"
	for _, tc := range []struct {
		user, path string
		schema     *flowcontrolv1.FlowSchema
	}{
		{bridgeUser, tasks, schemas["mcptask"]},
		{controllerUser, tasks, schemas["mcptask"]},
		{controllerUser, "/api/v1/pods", schemas["mcptask"]},
		{controllerUser, lease, schemas["mcptask-leader-election"]},
		{bridgeUser, lease, schemas["mcptask"]},
		{"system:serviceaccount:default:default", tasks, nil},
		{"system:serviceaccount:" + chartNamespace + ":default", tasks, nil},
	} {
		eventually(t, fmt.Sprintf("%s asks for %s", tc.user, tc.path), func() error {
			got, err := flowOf(tc.user, tc.path, accounts)
			if err != nil {
				return err
			}
			ours := got == schemas["mcptask"].UID || got == schemas["mcptask-leader-election"].UID
			switch {
			case tc.schema == nil && ours:
				return fmt.Errorf("it is served by a schema of ours")
			case tc.schema != nil && got != tc.schema.UID:
				return fmt.Errorf("it is not served by %s but by the schema with the uid %s", tc.schema.Name, got)
			}
			return nil
		})
	}
	// The API server has found nothing wrong with them: a schema without its level is dangling.
	for name, schema := range schemas {
		eventually(t, name+" is in force", func() error {
			if err := read(t, schema); err != nil {
				return err
			}
			for _, c := range schema.Status.Conditions {
				if c.Type == flowcontrolv1.FlowSchemaConditionDangling && c.Status == flowcontrolv1.ConditionFalse {
					return nil
				}
			}
			return fmt.Errorf("conditions %v", schema.Status.Conditions)
		})
	}
}

// flowOf is the UID of the flow schema by which the API server served a request of the user.
func flowOf(user, path string, groups ...string) (types.UID, error) {
	config := rest.CopyConfig(cfg)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return "", err
	}
	response, err := httpClient.Get(config.Host + path)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	uid := response.Header.Get(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID)
	if uid == "" {
		return "", errors.New("the answer does not say by which schema: HTTP " + http.StatusText(response.StatusCode))
	}
	return types.UID(uid), nil
}
