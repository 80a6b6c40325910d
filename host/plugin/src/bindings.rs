//! Types and calls generated from the contract, `wit/v0.1`.

#![allow(missing_docs, reason = "the contract documents them")]

wasmtime::component::bindgen!({
    path: "../../wit/v0.1",
    world: "full-plugin",
    imports: {
        "materialize:sink/http.send": async | trappable,
        "materialize:sink/http.[method]exchange.wait": async | trappable,
        default: trappable,
    },
    exports: { default: async },
    with: {
        "materialize:sink/changes.batch": crate::state::BatchHandle,
        "materialize:sink/http.exchange": crate::state::ExchangeHandle,
    },
});
