//! `ingest init --openapi`: a first draft from a description of an API.

use crate::support::world::{Ran, World};

const SHOP: &str = r##"
openapi: 3.1.0
info: { title: Shop }
servers: [{ url: "https://{place}.example.com/v2", variables: { place: { default: api } } }]
security: [{ key: [] }]
components:
  securitySchemes:
    key: { type: apiKey, in: header, name: X-Api-Key }
  parameters:
    size: { name: limit, in: query, schema: { type: integer, maximum: 250 } }
  schemas:
    Order:
      allOf:
        - { $ref: "#/components/schemas/Base" }
        - type: object
          properties:
            total: { type: number }
            title: { type: [string, "null"] }
            lines: { type: array, items: { type: object, properties: { sku: { type: string } } } }
    Base:
      type: object
      properties:
        id: { type: string }
        created_at: { type: string, format: date-time }
        paid: { type: boolean }
paths:
  /shops/{shop-id}/orders:
    parameters: [{ name: shop-id, in: path, required: true, schema: { type: string } }]
    get:
      parameters:
        - { $ref: "#/components/parameters/size" }
        - { name: cursor, in: query, schema: { type: string } }
        - { name: status, in: query, required: true, schema: { enum: [open, closed] } }
      responses:
        "200":
          content:
            application/json:
              schema:
                type: object
                properties:
                  data: { type: array, items: { $ref: "#/components/schemas/Order" } }
                  meta: { type: object, properties: { next_cursor: { type: string }, has_more: { type: boolean } } }
"##;

const OLD: &str = r#"{ "openapi": "3.0.3", "info": { "title": "Old" }, "servers": [{ "url": "/api" }],
  "paths": { "/things": { "get": {
    "parameters": [{ "name": "page", "in": "query", "schema": { "type": "integer" } }, { "name": "per_page", "in": "query", "schema": { "type": "integer", "default": 30 } }],
    "responses": { "200": { "content": { "application/json": { "schema": { "type": "array", "items": {
      "type": "object", "properties": { "uuid": { "type": "string" }, "size": { "type": "integer" } } } } } } } } } } } }"#;

const DISCOVERED: &str = r#"{ "kind": "discovery#restDescription", "title": "Books", "rootUrl": "https://books.googleapis.com/", "servicePath": "",
  "schemas": { "Volumes": { "properties": { "items": { "type": "array", "items": { "$ref": "Volume" } }, "nextPageToken": { "type": "string" } } },
    "Volume": { "properties": { "id": { "type": "string" }, "etag": { "type": "string" }, "pages": { "type": "string", "format": "int64" } } } },
  "resources": { "shelves": { "resources": { "volumes": { "methods": { "list": { "httpMethod": "GET", "path": "v1/shelves/{shelf}/volumes",
    "parameters": { "shelf": { "location": "path", "required": true, "type": "string" }, "pageToken": { "location": "query", "type": "string" },
      "pageSize": { "location": "query", "type": "integer", "default": "40" } }, "response": { "$ref": "Volumes" } } } } } } } }"#;

/// The draft, which `check` accepts and the sandbox serves.
fn draft(description: &str, call: &str) -> String {
    let world = World::new();
    let file = world.directory.path().join("description");
    std::fs::write(&file, description).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin!("ingest"));
        let command = command.current_dir(world.directory.path()).env_clear();
        Ran::of(
            command
                .env("HOME", world.directory.path())
                .args(arguments)
                .output()
                .unwrap(),
        )
    };
    let written = run(&["init", "--openapi", "description", "--call", call]);
    assert_eq!(written.code, 0, "{written:?}");
    let text = std::fs::read_to_string(world.directory.path().join("quotas.toml")).unwrap();
    let checked = run(&["check", "--config-only"]);
    assert_eq!(checked.code, 0, "{checked:?}\n{text}");
    let served = run(&["--region", "all", "--sandbox", "--format", "json"]);
    assert_eq!(served.json()["outcome"], "complete", "{served:?}\n{text}");
    text
}

fn has_all(text: &str, lines: &[&str]) {
    for line in lines {
        assert!(text.lines().any(|one| one == *line), "{line}\n{text}");
    }
}

#[test]
fn a_draft_from_openapi_in_yaml_has_path_paging_records_and_auth() {
    let text = draft(SHOP, "GET:/shops/{shop-id}/orders");
    has_all(
        &text,
        &[
            r#"base_url = "https://api.example.com/v2""#,
            r#"auth = { header = "x-api-key" }"#,
            r#"path = "shops/{shop_id}/orders""#,
            r#"page = { kind = "token", param = "cursor", next = "/meta/next_cursor", more = "/meta/has_more", size_param = "limit", size = 250 }"#,
            r#"params = { "status" = "open" }"#,
            r#"at = "/data""#,
            r#"kind = "order""#,
            r#"id = "/id""#,
            r#"text = ["/title"]"#,
            r#"total = { at = "/total", type = "real" }"#,
            r#"created_at = { at = "/created_at", type = "timestamp" }"#,
        ],
    );
    assert!(text.matches("# Guess").count() >= 7, "{text}");
}

#[test]
fn a_draft_from_openapi_in_json_turns_pages_by_number() {
    let text = draft(OLD, "get:/things");
    has_all(
        &text,
        &[
            r#"base_url = "https://api.example.com/api""#,
            r#"page = { kind = "number", param = "page", size_param = "per_page", size = 30 }"#,
            r#"at = """#,
            r#"id = "/uuid""#,
            r#"size = { at = "/size", type = "integer" }"#,
        ],
    );
}

#[test]
fn a_draft_from_a_discovery_document_has_its_page_token() {
    let text = draft(DISCOVERED, "GET:/v1/shelves/{shelf}/volumes");
    has_all(
        &text,
        &[
            r#"base_url = "https://books.googleapis.com/""#,
            r#"path = "v1/shelves/{shelf}/volumes""#,
            r#"page = { kind = "token", param = "pageToken", next = "/nextPageToken", size_param = "pageSize", size = 40 }"#,
            r#"pages = { at = "/pages", type = "integer" }"#,
        ],
    );
}

#[test]
fn a_call_that_the_description_lacks_is_refused_with_those_that_it_has() {
    let world = World::new();
    let file = world.directory.path().join("description");
    for (text, call, said) in [
        (SHOP, "GET:/orders", "GET:/shops/{shop-id}/orders"),
        (
            DISCOVERED,
            "GET:/v1/volumes",
            "GET:/v1/shelves/{shelf}/volumes",
        ),
        (SHOP, "orders", "GET:/things"),
        ("{}", "GET:/orders", "describes no call"),
        ("{ [", "GET:/orders", "neither JSON nor YAML"),
    ] {
        std::fs::write(&file, text).unwrap();
        let ran = world.ingest(&[
            "init",
            "--openapi",
            file.to_str().unwrap(),
            "--call",
            call,
            "new.toml",
        ]);
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(ran.stderr.contains(said), "{said}: {ran:?}");
    }
    assert!(!world.directory.path().join("new.toml").exists());
}
