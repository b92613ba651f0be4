// Package v1alpha1 is the API of the group mcptask.dev: McpTool, a Kubernetes Job
// template published as an MCP tool, and McpTask, one durable call of such a tool.
//
// +kubebuilder:object:generate=true
// +groupName=mcptask.dev
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of every type in this package.
var GroupVersion = schema.GroupVersion{Group: "mcptask.dev", Version: "v1alpha1"}

var schemeBuilder = runtime.NewSchemeBuilder(func(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &McpTool{}, &McpToolList{}, &McpTask{}, &McpTaskList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
})

// AddToScheme registers the types of this package.
var AddToScheme = schemeBuilder.AddToScheme
