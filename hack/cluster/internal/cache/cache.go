// Package cache names the folders that outlive one run of the tool: built
// programs, and the state of clusters.
package cache

import (
	"fmt"
	"os"
	"path/filepath"
)

// Variable is the environment variable that moves the cache elsewhere.
const Variable = "MCPTASK_CACHE"

// Root is the cache folder: $MCPTASK_CACHE, else mcptask in the user's cache
// folder. It exists when Root returns, and its path has no symbolic links.
func Root() (string, error) {
	root := os.Getenv(Variable)
	if root == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("find the cache folder: %w; set %s to a folder", err, Variable)
		}
		root = filepath.Join(user, "mcptask")
	}
	root, err := filepath.Abs(root)
	if err != nil {
		return "", fmt.Errorf("find the cache folder: %w", err)
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		return "", fmt.Errorf("make the cache folder: %w; set %s to a folder that can be written", err, Variable)
	}
	if root, err = filepath.EvalSymlinks(root); err != nil {
		return "", fmt.Errorf("find the cache folder: %w", err)
	}
	return root, nil
}

// Builds is the folder of built programs below root, one folder a key.
func Builds(root string) string { return filepath.Join(root, "cluster") }

// Clusters is the folder of running clusters below root, one folder a name.
func Clusters(root string) string { return filepath.Join(root, "clusters") }
